package leak

import (
	"bytes"
	"unicode/utf8"
)

// unescape decodes the escapes of JSON strings in a text, and reports whether it contained a
// backslash. Anything that only looks like an escape stays as it is: the result is searched, not
// used.
func unescape(text []byte) ([]byte, bool) {
	first := bytes.IndexByte(text, '\\')
	if first < 0 {
		return text, false
	}
	out := append(make([]byte, 0, len(text)), text[:first]...)
	for i := first; i < len(text); i++ {
		b := text[i]
		if b != '\\' || i+1 == len(text) {
			out = append(out, b)
			continue
		}
		i++
		switch b = text[i]; b {
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'u', 'x':
			digits := 4
			if b == 'x' { // in Go and JavaScript
				digits = 2
			}
			r, ok := unhex(text[i+1:], digits)
			if !ok {
				out = append(out, '\\', b)
				continue
			}
			out = utf8.AppendRune(out, r)
			i += digits
		default:
			out = append(out, b)
		}
	}
	return out, true
}

// unpercent decodes the percent-encoding in a text, and reports whether it contained a percent
// sign.
func unpercent(text []byte) ([]byte, bool) {
	first := bytes.IndexByte(text, '%')
	if first < 0 {
		return text, false
	}
	out := append(make([]byte, 0, len(text)), text[:first]...)
	for i := first; i < len(text); i++ {
		if text[i] == '%' {
			if r, ok := unhex(text[i+1:], 2); ok {
				out = append(out, byte(r))
				i += 2
				continue
			}
		}
		out = append(out, text[i])
	}
	return out, true
}

// unhex reads a number of n hexadecimal digits.
func unhex(text []byte, n int) (r rune, ok bool) {
	if len(text) < n {
		return 0, false
	}
	for _, b := range text[:n] {
		switch {
		case b >= '0' && b <= '9':
			r = r<<4 | rune(b-'0')
		case b >= 'a' && b <= 'f':
			r = r<<4 | rune(b-'a'+10)
		case b >= 'A' && b <= 'F':
			r = r<<4 | rune(b-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
