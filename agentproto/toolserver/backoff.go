package toolserver

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// The waits before the second, third and fourth attempt. From then on the wait
// doubles, up to maxWait.
var firstWaits = [...]time.Duration{time.Second, 5 * time.Second, 30 * time.Second}

const maxWait = time.Hour

// waitAfter returns how long to wait after so many failed attempts. Up to a tenth
// is added at random, so that messages which failed together do not come back
// together.
func waitAfter(failed int) time.Duration {
	d := scheduled(failed)
	return d + rand.N(d/10)
}

// scheduled is waitAfter without chance.
func scheduled(failed int) time.Duration {
	if failed <= len(firstWaits) {
		return firstWaits[failed-1]
	}
	return min(firstWaits[len(firstWaits)-1]<<min(failed-len(firstWaits), 10), maxWait)
}

// retryAfter reads the Retry-After header, which is a number of seconds or a date.
// It returns 0 if there is none that can be read.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if v == "" {
		return 0
	}
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// attemptsBy returns how many attempts of a message of that age count as failed when
// it is tried anew after a restart. Attempts are not counted in the store: a message
// goes on in the schedule by its age, so that an attempt that fails writes nothing.
func attemptsBy(age time.Duration) int {
	n := 0
	for at := scheduled(1); at <= age && at < maxAge; at += scheduled(n + 1) {
		n++
	}
	return n
}

// maxAge bounds the loop of attemptsBy. From then on all waits are the same.
const maxAge = 48 * time.Hour
