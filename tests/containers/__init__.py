"""The images and compose files of docker/, in a container engine; ``make test-containers``."""
