package agentproto

import (
	"strings"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/plain"
)

// PlainText makes text from an untrusted source safe to show to a person or a model. It removes invisible characters, and cuts a
// text of more than limit bytes and marks the cut with an ellipsis. Removed are control characters except line feed and tab,
// marks that reorder text, and characters without a shape, such as zero-width spaces and the tags that spell hidden words.
// Joiners and variation selectors stay, because scripts and emoji need them. Other line breaks become line feeds. See threats 30
// and 31 of doc/threats.md.
func PlainText(s string, limit int) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n").Replace(strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Map(func(r rune) rune {
		if hidden(r) {
			return -1
		}
		return r
	}, s)
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return strings.Clone(s[:limit]) + "…"
}

// hidden reports whether r is invisible or changes where other characters appear.
func hidden(r rune) bool {
	switch {
	case r == '\n', r == '\t', r == '\u200C', r == '\u200D', 0xFE00 <= r && r <= 0xFE0F:
		return false
	}
	return plain.Invisible(r)
}
