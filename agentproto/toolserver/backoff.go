package toolserver

import (
	"math/rand/v2"
	"time"

	"github.com/millrace/millrace/internal/edge"
)

// again is when a message that was not accepted is sent again.
var again = edge.Curve{First: []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}, Most: time.Hour}

// waitAfter returns how long to wait after so many failed attempts. Up to a tenth
// is added at random, so that messages which failed together do not come back
// together.
func waitAfter(failed int) time.Duration {
	d, _ := again.After(failed) // it goes on without end
	return d + rand.N(d/10)
}

// attemptsBy returns how many attempts of a message of that age count as failed when
// it is tried anew after a restart. Attempts are not counted in the store: a message
// goes on in the schedule by its age, so that an attempt that fails writes nothing.
func attemptsBy(age time.Duration) int {
	at := time.Duration(0)
	for n := 0; ; n++ {
		d, _ := again.After(n + 1)
		if at += d; at > age || at >= maxAge {
			return n
		}
	}
}

// maxAge bounds the loop of attemptsBy. From then on all waits are the same.
const maxAge = 48 * time.Hour
