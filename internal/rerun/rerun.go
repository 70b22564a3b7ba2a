// Package rerun writes the command that runs one failed test again.
package rerun

import (
	"regexp"
	"strings"
)

// Line returns a command line for a POSIX shell that runs exactly one test, in the
// directory of its package. The name is the result of testing.TB.Name. Each of flags is
// passed to the test as one word.
//
// The name is that of a test, of a subtest, or of a row of a fuzz test's corpus. The go
// command splits -run at slashes, so each element between two slashes becomes a regular
// expression that matches the element literally. Line takes time linear in its arguments.
func Line(name string, flags ...string) string {
	words := []string{"go test -run " + quote(pattern(name))}
	for _, flag := range flags {
		words = append(words, word(flag))
	}
	return strings.Join(words, " ")
}

// pattern returns the value of -run that selects one test.
func pattern(name string) string {
	elements := strings.Split(name, "/")
	for i, element := range elements {
		elements[i] = "^" + regexp.QuoteMeta(strings.ReplaceAll(element, " ", "_")) + "$"
	}
	return strings.Join(elements, "/")
}

// plain matches words that no shell changes.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=-]+$`)

// word quotes a word only if necessary, since people read the command.
func word(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return quote(s)
}

// quote returns s as one quoted word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
