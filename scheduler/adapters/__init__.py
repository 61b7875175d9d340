"""What fills the ports: one folder a technology, files named after the port they fill."""
