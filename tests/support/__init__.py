"""What several folders of tests share: models, photographs, torch twins."""
