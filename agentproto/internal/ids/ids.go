// Package ids has the rule for the ids of the protocol: see section 2.5 of doc/protocol.md. Messages, requests and the ids that a
// model makes are all checked with [Reason], so that no part accepts an id that another one refuses.
package ids

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxBytes is the maximum length of an id.
const MaxBytes = 1024

// Reason says what is wrong with an id, or returns "". Ids are opaque: anything is accepted that fits into a log line and is
// neither empty nor too long. Slashes and emoji are fine; control characters, line breaks and marks that reorder text are not.
func Reason(s string) string {
	switch {
	case s == "":
		return "must not be empty"
	case len(s) > MaxBytes:
		return "is longer than 1024 bytes"
	case !utf8.ValidString(s):
		return "is not valid UTF-8"
	case strings.ContainsFunc(s, Unprintable):
		return "has a control character"
	}
	return ""
}

// Unprintable reports whether r breaks a line, moves the cursor or reorders text.
func Unprintable(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
}
