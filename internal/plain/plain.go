// Package plain makes text from strangers safe for a terminal: it spells out the characters that
// a terminal would obey, that reorder text, or that are invisible. [Line] and [Text] do it for a
// string, [NewWriter] for a stream, and [JSON] for JSON without changing its meaning.
//
// Start reading at [Hidden], which defines these characters.
package plain

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hidden reports whether r must not reach a terminal: invisible characters, and code points that
// are not characters or whose appearance is unknown. Blanks are not hidden.
func Hidden(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7F
	}
	return Invisible(r) || !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r)
}

// Invisible reports whether r is a control character (C0, DEL and C1, including line feed and
// tab), a separator of lines or paragraphs, a character that formats or reorders text, or one
// that Unicode allows programs to ignore, such as a zero-width space, a tag or a variation
// selector.
func Invisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		0xE0000 <= r && r <= 0xE0FFF // ignorable, assigned or not
}

// Line returns s with every hidden character spelled out as \u{1b}, so that it is one line. A
// byte that is not UTF-8 becomes \x{9b}. Everything else is unchanged; in particular, text in s
// that already looks like an escape is not marked.
func Line(s string) string { return escape(s, "") }

// Text is [Line] for text that may have several lines: line feeds and tabs stay.
func Text(s string) string { return escape(s, "\n\t") }

func escape(s, keep string) string {
	var b strings.Builder
	for clean := 0; ; {
		n := hiddenAt(s[clean:], keep)
		if n < 0 {
			if b.Len() == 0 {
				return s
			}
			b.WriteString(s[clean:])
			return b.String()
		}
		b.WriteString(s[clean : clean+n])
		r, size := utf8.DecodeRuneInString(s[clean+n:])
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, `\x{%x}`, s[clean+n])
		} else {
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
		clean += n + size
	}
}

// hiddenAt returns the index of the first character of s that must be spelled out, or -1. The
// selectors that make a symbol a text or an emoji are kept after a visible character.
func hiddenAt(s, keep string) int {
	seen := false // the previous character is visible
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			return i
		case r == '\uFE0E' || r == '\uFE0F':
			if !seen {
				return i
			}
			seen = false
		case Hidden(r) && !strings.ContainsRune(keep, r):
			return i
		default:
			seen = true
		}
	}
	return -1
}
