package plain

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns valid JSON that means the same as text and contains no hidden character
// except the line feeds and tabs between its tokens: those in strings are written as \u001b.
// It returns text itself if nothing needs to change.
func JSON(text []byte) []byte {
	var out []byte
	clean := 0
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[i:])
		}
		// In valid JSON, characters below a blank occur only between tokens.
		if r >= ' ' && Hidden(r) {
			out = append(out, text[clean:i]...)
			for _, unit := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
			clean = i + size
		}
		i += size
	}
	if clean == 0 {
		return text
	}
	return append(out, text[clean:]...)
}
