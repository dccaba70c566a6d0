"""The syntax tree of a text that changes a little from one reading to the next.

The text is cut into pieces, and those that do not change keep what was parsed of them; only the places
in it move. The tree is that of the whole text. If the text has not the form for that, because a brace
is missing or a comment of another language is there, the whole is parsed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from attrs import define, field

from dsl import syntax
from dsl.source import Source, Span
from grammar import lark_parser
from grammar.kept import parts
from grammar.kept.pieces import Piece, cut
from grammar.parsing.parser import parse
from grammar.reports import MOST_TOKENS, Reports, TooManyError
from grammar.tokens import comments

if TYPE_CHECKING:
    from lark import Token

    from grammar.kept.pieces import Inside

MOST_ERRORS = 50
"""With more errors the whole text is parsed, because after a number of them reading ends."""


@define(eq=False)
class KeptText:
    """A text, with what was parsed of it at its last reading."""

    _source: Source = field(factory=lambda: Source("", ""))
    _pieces: list[Piece] = field(factory=list)
    _changed: tuple[int, int] | None = None

    def parse(self, source: Source, reports: Reports) -> syntax.File | None:
        """Return the syntax tree as `grammar.parsing.parser.parse` does.

        Args:
            source: The text.
            reports: Collects the diagnostics.
        """
        self.move(source)
        file = self._from_pieces(reports)
        if file is not None:
            return file
        found = reports.for_text()
        file = parse(source, found)
        if not self._pieces or not found.found:
            self._pieces, self._changed = [], None
            self._begin(file, found)
        _add(found, source, reports)
        return file

    @property
    def name(self) -> str:
        """The name of the text."""
        return self._source.name

    @property
    def is_kept(self) -> bool:
        """Whether the next reading can use what was parsed in this one."""
        return bool(self._pieces) and self._changed is None

    def source_of(self, name: str, text: str) -> Source:
        """Return the source of a text, which is that of the last reading if the text is the same.

        Args:
            name: The path of the file.
            text: The text.
        """
        known = self._source
        return known if (known.name, known.text) == (name, text) else Source(name, text)

    # --- what stays

    def move(self, source: Source) -> None:
        """Take a new text, and move the places in what has not changed.

        Everything that was read of the text before has the new places then.
        """
        if source is self._source:
            return
        old, new = self._source.text, source.text
        before = _common(old, new)
        after = min(_common(old[before:][::-1], new[before:][::-1]), len(old) - before, len(new) - before)
        start, end, shift = before, len(old) - after, len(new) - len(old)
        lines = new.count("\n", before, len(new) - after) - old.count("\n", before, end)
        if self._changed is not None:
            start, end = min(start, self._changed[0]), max(end, self._changed[1])
        kept: list[Piece] = []
        if old != new or self._changed is not None:
            for piece in self._pieces:
                if piece.end < start or (piece.end == start and old[start - 1] == "\n"):
                    _place(piece, source, 0, 0)
                    kept.append(piece)
                elif piece.start > end:
                    _place(piece, source, shift, lines)
                    kept.append(piece)
            self._changed = (start, end + shift)
        else:
            kept = self._pieces
            for piece in kept:
                _place(piece, source, 0, 0)
        self._pieces, self._source = kept, source

    def prepare(self) -> None:
        """Find the places that a change will move, so that the change itself takes less time."""
        for piece in self._pieces:
            parts.spans_in(piece)

    # --- what is new

    def _from_pieces(self, reports: Reports) -> syntax.File | None:
        if not self._pieces or comments.has_foreign(self._source):
            return None
        if self._changed is not None and not self._read_changed(self._changed[0]):
            return None
        self._changed = None
        tokens = sum(piece.tokens for piece in self._pieces)
        if tokens > reports.left_for(self._source):
            return None
        reports.count(self._source, tokens)
        return self._whole(reports)

    def _read_changed(self, start: int) -> bool:
        """Cut and parse what has changed, from offset `start` on, with a piece before and after it.

        Returns:
            Whether what comes after it stays as it is.
        """
        starts = [piece.start for piece in self._pieces]
        at = bisect_left(starts, start)
        first, last = max(at - 1, 0), min(at + 1, len(self._pieces))
        old = self._pieces[first:last]
        begin = 0 if first == 0 else self._pieces[first].start
        stop = len(self._source.text) if last == len(self._pieces) else self._pieces[last].start
        inside = self._around(first) if begin else None
        tokens = self._lexed(begin, stop)
        found = cut(tokens, begin, stop, inside) if len(tokens) <= MOST_TOKENS else None
        if not found:
            return False
        final = found[-1][0]
        if last == len(self._pieces):
            if not _is_whole(final):
                return False
        elif (
            final.role == "end"
            or final.start != old[-1].start
            or (final.role, final.inside) != (old[-1].role, old[-1].inside)
        ):
            return False
        known = {(each.start, each.end, each.inside): each for each in old if each.is_clean}
        new = [(known.get((piece.start, piece.end, piece.inside), piece), raw) for piece, raw in found]
        following = self._pieces[last] if last < len(self._pieces) else None
        try:
            for number, (piece, raw) in enumerate(new):
                if piece in old:
                    continue
                nearest = new[number + 1][0] if number + 1 < len(new) else following
                self._read(piece, raw, nearest)
        except (parts.OfTheWholeTextError, TooManyError):
            return False
        self._pieces[first:last] = [piece for piece, _ in new]
        return True

    def _read(self, piece: Piece, raw: list[Token], following: Piece | None) -> None:
        """Parse a piece that stands before another one."""
        first = None
        after: list[Token] = []
        if piece.role == "items" and following is not None:
            for token in self._lexed(following.start, following.end):
                is_closer = following.role == "closer" and token.type == "RBRACE"
                if token.type != "NEWLINE" and not is_closer:
                    break
                after.append(token)
                if is_closer:
                    break
            if following.role in {"items", "opener"}:
                first = following.first
        parts.parse(piece, raw, after, first, self._source)
        piece.tokens = len(raw)
        if piece.role == "opener":
            piece.items = (parts.opened(raw, self._source),)
            piece.spans = None

    def _lexed(self, start: int, end: int) -> list[Token]:
        """Return the tokens of some lines."""
        line = self._source.position(start).line
        return lark_parser.lex(self._source.text, start=start, end=end, line=line, most=MOST_TOKENS)

    def _around(self, number: int) -> Inside | None:
        """Return the block in which a piece starts."""
        piece = self._pieces[number]
        return None if piece.role == "opener" else piece.inside

    # --- the whole

    def _whole(self, reports: Reports) -> syntax.File | None:
        """Put the tree together, unless the errors in the pieces depend on each other."""
        errors = sum(piece.errors for piece in self._pieces if piece.errors)
        if errors + len(reports.found) > MOST_ERRORS or not self._brackets_are_local():
            return None
        items: list[syntax.Item] = []
        inner: list[syntax.Item] = []
        opener: syntax.Block | None = None
        for piece in self._pieces:
            if piece.role == "opener":
                (opener,) = piece.items  # type: ignore[assignment] # the first line of a block
                inner = []
            elif piece.role == "closer" and opener is not None:
                whole = Span(self._source, opener.span.start, self._end_of(piece))
                items.append(opener.changed(items=tuple(inner), span=whole))
                opener = None
            else:
                (items if opener is None else inner).extend(piece.items)
        for piece in self._pieces:
            for each in piece.found:
                reports.add(each)
        for piece in self._pieces:
            for start, end in piece.tainted:
                reports.taint(Span(self._source, piece.start + start, piece.start + end))
            if piece.distrusted:
                reports.distrust(self._source)
        allowances = [each for piece in self._pieces for each in piece.allowances]
        return syntax.File(self._source, tuple(items), tuple(allowances))

    def _end_of(self, closer: Piece) -> int:
        """Return the offset after the `}` that is alone in its line, behind which there may be a comment."""
        tokens = self._lexed(closer.start, closer.end)
        return next(each.end_pos or 0 for each in tokens if each.type == "RBRACE")

    def _brackets_are_local(self) -> bool:
        """Whether brackets that lack a partner are to be put in within their pieces."""
        open_ = [at for at, piece in enumerate(self._pieces) if piece.unmatched]
        if not open_:
            return True
        later = self._pieces[open_[0] + 1 :]
        if len(open_) > 1 or any(piece.lists_names or not piece.is_clean for piece in later):
            return False
        before = 0
        for piece in self._pieces:
            if not piece.is_plain or (piece.first is not None and piece.first.indent > before):
                return False
            before = piece.indent
        return True

    # --- the first reading

    def _begin(self, file: syntax.File | None, found: Reports) -> None:
        """Cut the text, and give each piece what was parsed of it."""
        if file is None or found.is_distrusted(self._source) or comments.has_foreign(self._source):
            return
        text = self._source.text
        cut_ = cut(self._lexed(0, len(text)), 0, len(text), None)
        if not cut_ or not _is_whole(cut_[-1][0]):
            return
        self._pieces = [piece for piece, _ in cut_]
        for piece, raw in cut_:
            piece.tokens = len(raw)
        if not (self._give_headers(cut_, file) and self._give_items(file) and self._read_again(cut_, found)):
            self._pieces = []

    def _give_headers(self, cut_: list[tuple[Piece, list[Token]]], file: syntax.File) -> bool:
        """Give the first lines of blocks their blocks; return whether all have one."""
        blocks = {item.span.start: item for item in file.items if isinstance(item, syntax.Block)}
        for piece, raw in cut_:
            if piece.role == "opener":
                opened = parts.opened(raw, self._source)
                block = blocks.get(opened.span.start)
                if block is None or block.label != opened.label:
                    return False
                piece.items = (block.changed(items=(), span=opened.span),)
        return True

    def _give_items(self, file: syntax.File) -> bool:
        """Give the pieces their items and allowances; return whether each item is in one piece."""
        starts = [piece.start for piece in self._pieces]

        def piece_at(offset: int) -> Piece:
            return self._pieces[bisect_right(starts, offset) - 1]

        for item in file.items:
            opens = isinstance(item, syntax.Block) and piece_at(item.span.start).role == "opener"
            for each in item.items if opens and isinstance(item, syntax.Block) else (item,):
                piece = piece_at(each.span.start)
                if piece.role != "items" or each.span.end > piece.end:
                    return False
                piece.items = (*piece.items, each)
        for allowance in file.allowances:
            piece = piece_at(allowance.span.start)
            piece.allowances = (*piece.allowances, allowance)
        return True

    def _read_again(self, cut_: list[tuple[Piece, list[Token]]], found: Reports) -> bool:
        """Parse the pieces in which something is wrong by themselves."""
        wrong = [each.span for each in found.found if each.span is not None]
        wrong += [Span(self._source, start, end) for start, end in found.tainted_in(self._source)]
        starts = [piece.start for piece, _ in cut_]
        again = {
            at
            for span in wrong
            for at in range(bisect_right(starts, span.start) - 1, bisect_right(starts, span.end))
        }
        again |= {at for at, (piece, _) in enumerate(cut_) if piece.unmatched}
        try:
            for at in sorted(again):
                piece, raw = cut_[at]
                self._read(piece, raw, cut_[at + 1][0] if at + 1 < len(cut_) else None)
        except (parts.OfTheWholeTextError, TooManyError):
            return False
        return True


def _is_whole(last: Piece) -> bool:
    """Whether no block is open after the last piece of a text."""
    return last.role == "closer" or (last.role != "opener" and last.inside is None)


def _place(piece: Piece, source: Source, shift: int, lines: int) -> None:
    """Move the places in what was read of a piece."""
    for span in parts.spans_in(piece):
        span.source = source
        span.start += shift
        span.end += shift
    for item in piece.items:
        if isinstance(item, syntax.Attribute) and item.memory is not None:
            for span in item.memory.spans:
                span.source = source
                span.start += shift
                span.end += shift
    for each in piece.allowances:
        each.line = None if each.line is None else each.line + lines
    piece.start += shift
    piece.end += shift


def _common(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their start."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least


def _add(found: Reports, source: Source, reports: Reports) -> None:
    """Add what one reading of a text has found to the diagnostics of a spec."""
    for each in found.found:
        reports.add(each)
    for start, end in found.tainted_in(source):
        reports.taint(Span(source, start, end))
    if found.is_distrusted(source):
        reports.distrust(source)
