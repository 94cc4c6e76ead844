"""What can be read off a release for free, because its noise is known. Nothing here reads anybody's rows."""
