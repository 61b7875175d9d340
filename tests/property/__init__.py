"""What must hold for every input, checked with inputs hypothesis invents."""
