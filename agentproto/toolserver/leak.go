package toolserver

import (
	"bytes"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// tail is how many last bytes of a secret index it. Shorter secrets are not looked
// for: they would be found everywhere.
const tail = 8

// A leakGuard finds live secrets in what is about to leave. It looks for each
// secret exactly, in the form it has inside a JSON string.
//
// Secrets are indexed by their last bytes, since those of a JSON Web Token differ
// where its first ones do not; so the cost is that of the text and not of the
// number of secrets.
type leakGuard struct {
	mu     sync.RWMutex
	byTail map[[tail]byte][]string
	byKey  map[TokenKey][2][]string // this generation of tokens and the one before
}

// add looks for a secret from now on, for ever.
func (g *leakGuard) add(s Secret) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.index(quoted(s))
}

// replace looks for the secrets of a token from now on. The ones of the token
// before it are kept, since it may still be good for a while; older ones are not.
func (g *leakGuard) replace(key TokenKey, t *UserToken) {
	fresh := []string{quoted(t.Access), quoted(t.Refresh)}
	g.mu.Lock()
	defer g.mu.Unlock()
	generations := g.byKey[key]
	if generations[0] != nil && generations[0][0] == fresh[0] && generations[0][1] == fresh[1] {
		return
	}
	for _, s := range generations[1] {
		g.unindex(s)
	}
	for _, s := range fresh {
		g.index(s)
	}
	if g.byKey == nil {
		g.byKey = make(map[TokenKey][2][]string)
	}
	g.byKey[key] = [2][]string{fresh, generations[0]}
}

// finds reports whether a JSON text contains a live secret.
func (g *leakGuard) finds(text []byte) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if len(g.byTail) == 0 {
		return false
	}
	for end := tail; end <= len(text); end++ {
		for _, s := range g.byTail[[tail]byte(text[end-tail:end])] {
			if bytes.HasSuffix(text[:end], []byte(s)) {
				return true
			}
		}
	}
	return false
}

func (g *leakGuard) index(s string) {
	if len(s) < tail {
		return
	}
	if g.byTail == nil {
		g.byTail = make(map[[tail]byte][]string)
	}
	k := [tail]byte([]byte(s[len(s)-tail:]))
	g.byTail[k] = append(g.byTail[k], s)
}

func (g *leakGuard) unindex(s string) {
	if len(s) < tail {
		return
	}
	k := [tail]byte([]byte(s[len(s)-tail:]))
	list := g.byTail[k]
	for i := range list {
		if list[i] == s { // one of them: equal secrets may be live under two keys
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(g.byTail, k)
		return
	}
	g.byTail[k] = list
}

// quoted returns s as it looks inside a JSON string.
func quoted(s Secret) string {
	q, err := jsontext.AppendQuote(nil, s.Reveal())
	if err != nil {
		return s.Reveal()
	}
	return string(q[1 : len(q)-1])
}
