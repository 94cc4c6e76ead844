"""A board as a page that a person opens: she makes her own model in her browser, and nothing leaves it."""
