"""What a newcomer does, from nothing: installs from an index, clones, follows the pages, errs."""
