// Package plain makes what strangers wrote fit for a terminal: it spells out the characters
// that a terminal would obey, that reorder what is read, or that cannot be seen. [Line] and
// [Text] do it for a string, [NewWriter] for a stream, [JSON] for JSON, without changing what
// it means, and [URL] for an address that a person is sent to.
//
// Start reading at [Hidden], which says what these characters are.
package plain

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hidden reports whether r must not reach a terminal: what is invisible, and code points that
// are no character or of which nobody knows what they look like. Blanks are not hidden.
func Hidden(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7F
	}
	return Invisible(r) || !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r)
}

// Invisible reports whether r is a control character (C0, DEL and C1, line feed and tab among
// them), a separator of lines or paragraphs, a character that formats or reorders text, or one
// that Unicode lets a program ignore, such as a zero-width space, a tag or a variation selector.
func Invisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		0xE0000 <= r && r <= 0xE0FFF // ignorable, assigned or not
}

// Line returns s with every hidden character spelled out as \u{1b}, so that it is one line.
// A byte that is not UTF-8 becomes \x{9b}. All else stays as it is: what is spelled out cannot
// be told from the same in s.
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

// hiddenAt returns where the first character of s is that has to be spelled out, or -1. The
// selectors that make a symbol a text or an emoji stay behind a character that is seen.
func hiddenAt(s, keep string) int {
	seen := false // the character before
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
