"""Billboard + own rows → own head. Runs at the person's side; nothing here is published."""
