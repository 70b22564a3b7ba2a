// Package rerun writes the command that runs one failed test again.
package rerun

import (
	"regexp"
	"strings"
)

// Line returns a command line for a POSIX shell that runs, in the directory of its package,
// the test with the name that testing.TB.Name returned, and no other one. What flags has is
// given to the test, each as one word.
//
// The name is that of a test, of a sub-test, or of a row of a fuzz test's corpus. Each
// element between two slashes becomes a regular expression of its own, as the go command
// splits -run at slashes, so that whatever a name has stands for itself. It takes
// time linear in its arguments.
func Line(name string, flags ...string) string {
	words := []string{"go test -run " + quote(pattern(name))}
	for _, flag := range flags {
		words = append(words, word(flag))
	}
	return strings.Join(words, " ")
}

// pattern returns the value of -run that names one test.
func pattern(name string) string {
	elements := strings.Split(name, "/")
	for i, element := range elements {
		elements[i] = "^" + regexp.QuoteMeta(strings.ReplaceAll(element, " ", "_")) + "$"
	}
	return strings.Join(elements, "/")
}

// plain are the words that no shell changes.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=-]+$`)

// word quotes a word if it needs it, since most do not and are read by people.
func word(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return quote(s)
}

// quote returns one word of a shell that stands for s.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
