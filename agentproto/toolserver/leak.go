package toolserver

import (
	"bytes"
	"encoding/base64"
	"sync"
)

// tail is how many last bytes of a secret index it. Shorter secrets are not looked
// for: they would be found everywhere.
const tail = 8

// maxOnce is how many codes, verifiers and the like are looked for. They are good
// for minutes, so the latest ones are those that count.
const maxOnce = 50_000

// A leakGuard finds live secrets in what is about to leave: as they are, in JSON
// strings, percent-encoded, in base64 of either alphabet at any alignment, and in
// what these make of each other (threat 23).
//
// A text is compared in a form that base64 alphabets and line breaks make no
// difference to, and compared again each time an encoding is taken off it. Secrets
// are indexed by their last bytes, since those of a JSON Web Token differ where its
// first ones do not; so the cost is that of the text, times a constant, and not of
// the number of secrets.
type leakGuard struct {
	mu     sync.RWMutex
	live   map[string]int       // secrets, and how often each was added
	byTail map[uint64][]pattern // their forms, by the last bytes
	byKey  map[TokenKey][2]generation
	once   []string // a ring
	next   int      // in once, when it is full
}

// A pattern is one form of a secret: as it is, or inside base64 after 0, 1 or 2
// bytes of a group of three. It is made when it is compared, not kept.
type pattern struct {
	secret string
	form   int
}

const (
	asItIs = iota
	base64At0
	base64At1
	base64At2
	forms
)

// A generation is what a provider issued together.
type generation struct{ access, refresh string }

// add looks for a secret from now on, for ever.
func (g *leakGuard) add(s Secret) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.index(s.Reveal())
}

// addOnce looks for secrets that are used once, until many others have come.
func (g *leakGuard) addOnce(secrets ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range secrets {
		g.index(s)
		if len(g.once) < maxOnce {
			g.once = append(g.once, s)
			continue
		}
		g.unindex(g.once[g.next])
		g.once[g.next] = s
		g.next = (g.next + 1) % maxOnce
	}
}

// replace looks for the secrets of a token from now on. The ones of the token
// before it are kept, since it may still be good for a while; older ones are not.
func (g *leakGuard) replace(key TokenKey, t *UserToken) {
	fresh := generation{t.Access.Reveal(), t.Refresh.Reveal()}
	g.mu.RLock()
	known := g.byKey[key][0] == fresh
	g.mu.RUnlock()
	if known {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	generations := g.byKey[key]
	g.unindex(generations[1].access)
	g.unindex(generations[1].refresh)
	g.index(fresh.access)
	g.index(fresh.refresh)
	if g.byKey == nil {
		g.byKey = make(map[TokenKey][2]generation)
	}
	g.byKey[key] = [2]generation{fresh, generations[0]}
}

// peels are the encodings that are taken off a text, in this order. A result is
// often JSON in a string of JSON; an address is percent-encoded before it gets in.
var peels = [...]func([]byte) ([]byte, bool){unescape, unescape, unpercent, unescape, unpercent}

// finds reports whether a text contains a live secret. The text may be JSON.
func (g *leakGuard) finds(text []byte) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if len(g.byTail) == 0 {
		return false
	}
	plain := make([]byte, 0, len(text))
	if g.scan(plain, text) {
		return true
	}
	for _, peel := range peels {
		inner, changed := peel(text)
		if !changed {
			continue
		}
		if text = inner; g.scan(plain, text) {
			return true
		}
	}
	return false
}

// scan looks through one form of a text. It writes the comparable form to plain,
// which has the capacity for it.
func (g *leakGuard) scan(plain, text []byte) bool {
	var last uint64
	for _, b := range text {
		if b == '\n' || b == '\r' {
			continue
		}
		b = comparable64(b)
		plain = append(plain, b)
		last = last<<8 | uint64(b)
		if len(plain) < tail {
			continue
		}
		for _, p := range g.byTail[last] {
			if bytes.HasSuffix(plain, []byte(p.text())) {
				return true
			}
		}
	}
	return false
}

// text returns what a pattern looks like in the comparable form.
func (p pattern) text() string {
	if p.form == asItIs {
		return comparableText(p.secret)
	}
	at := p.form - base64At0
	encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, at, at+len(p.secret)), p.secret...))
	// The characters at the ends are the neighbours' too.
	return encoded[(at*8+5)/6 : (at+len(p.secret))*8/6]
}

// comparable64 makes the two alphabets of base64 one.
func comparable64(b byte) byte {
	switch b {
	case '-':
		return '+'
	case '_':
		return '/'
	}
	return b
}

func comparableText(s string) string {
	plain := make([]byte, 0, len(s))
	for i := range len(s) {
		if s[i] != '\n' && s[i] != '\r' {
			plain = append(plain, comparable64(s[i]))
		}
	}
	return string(plain)
}

func (g *leakGuard) index(s string) {
	if len(comparableText(s)) < tail {
		return
	}
	if g.live == nil {
		g.live, g.byTail = make(map[string]int), make(map[uint64][]pattern)
	}
	if g.live[s]++; g.live[s] > 1 {
		return
	}
	for form := range forms {
		p := pattern{s, form}
		k := p.tail()
		g.byTail[k] = append(g.byTail[k], p)
	}
}

func (g *leakGuard) unindex(s string) {
	if g.live[s] == 0 {
		return
	}
	if g.live[s]--; g.live[s] > 0 {
		return // equal secrets are live under two keys
	}
	delete(g.live, s)
	for form := range forms {
		p := pattern{s, form}
		k := p.tail()
		list := g.byTail[k]
		for i := range list {
			if list[i] == p {
				list = append(list[:i:i], list[i+1:]...)
				break
			}
		}
		if len(list) == 0 {
			delete(g.byTail, k)
		} else {
			g.byTail[k] = list
		}
	}
}

// tail returns the last bytes of a pattern as scan sees them.
func (p pattern) tail() (last uint64) {
	text := p.text()
	for _, b := range []byte(text[len(text)-tail:]) {
		last = last<<8 | uint64(b)
	}
	return last
}
