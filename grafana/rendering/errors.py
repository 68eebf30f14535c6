"""What can go wrong while pictures are made."""


class RenderError(Exception):
    """No picture can be made; the text is one line that says what to do."""
