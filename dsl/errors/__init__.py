"""The wording of all diagnostics: one factory for each, in folders by the stage that reports them."""
