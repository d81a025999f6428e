"""GradSkip and gradskip+."""
