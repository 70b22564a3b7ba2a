package lint

import "testing"

// faces limits the number of files, without tests, of each package that is the public face of a
// subsystem. What its users do not see is in internal packages beside it.
var faces = map[string]int{
	"agentproto/host":       25, // events of subscriptions without a conversation are a subject of their own
	"agentproto/toolserver": 24, // forms are a subject of their own
}

// TestFaces keeps public faces small, and requires the limit to be lowered when a package shrinks.
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
