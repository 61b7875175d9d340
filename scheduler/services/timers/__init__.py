"""The HTTP timer service: timers that call back."""
