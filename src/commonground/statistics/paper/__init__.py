"""The papers' own statistics; the recipes' ``DEPARTURES`` say where they differ."""
