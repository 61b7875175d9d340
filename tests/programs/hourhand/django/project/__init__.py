"""An application of Django, whose tests Django runs."""
