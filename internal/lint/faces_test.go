package lint

import "testing"

// faces says how many files, without tests, a package may have that is a public face of a
// subsystem: what its users do not see is in internal packages beside it.
var faces = map[string]int{
	"agentproto/host":       25, // events of subscriptions without a conversation are a subject of their own
	"agentproto/toolserver": 24, // forms are a subject of their own
}

// TestFaces keeps public faces small, and lowers the bound with them.
func TestFaces(t *testing.T) {
	files := make(map[string]int)
	for _, f := range sources(t) {
		if !f.test {
			files[f.dir]++
		}
	}
	for dir, most := range faces {
		switch n := files[dir]; {
		case n > most:
			t.Errorf("%s has %d files, more than %d: what of it is no public face?", dir, n, most)
		case n < most:
			t.Errorf("%s has %d files: write that into the table, in place of %d", dir, n, most)
		}
	}
}
