"""The style of the project, as tests: sizes, names, imports, documents, packaging."""
