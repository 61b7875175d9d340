"""Values that know nothing of tasks: instants, offsets, settings, errors and how they are shown."""
