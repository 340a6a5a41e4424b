"""Everything a person looks at: rows in, tables, sentences, figures and pages out. Nothing here imports torch."""
