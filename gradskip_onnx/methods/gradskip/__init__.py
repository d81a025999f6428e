"""The methods GradSkip and gradskip+."""
