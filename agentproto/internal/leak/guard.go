// Package leak finds credentials in texts of tools, and replaces them.
package leak

import (
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"sync/atomic"
)

const (
	// minGuarded is the minimum length of a secret that is searched for. A shorter one would be
	// found everywhere.
	minGuarded = 8
	// maxGuarded is how many bytes of a secret, from its end, are considered.
	maxGuarded = 4096
	// windowBytes is how many bytes of a secret identify it.
	windowBytes = 16
	// maxOnce is how many values besides the tokens are searched for per user: what one exchange
	// returns, and its code.
	maxOnce = 4
	// maxWindows is how many windows of users' secrets one generation holds.
	maxWindows = 1 << 18
)

// A Digest identifies an authorization.
type Digest = [sha256.Size]byte

// An Owner names the owner of a token.
type Owner struct{ Runtime, User, Provider string }

// A Guard finds secrets in texts of tools: as they are, in JSON strings, percent-encoded, in base64
// of either alphabet at any alignment, and in combinations of these (threat 23).
//
// It searches for values that a provider has issued in a successful exchange, that the operator has
// configured, or that the server itself has generated. Nothing from a request, a tool or a user is
// added: anyone who could choose what is searched for could choose which messages are withheld.
//
// A secret is identified by a window: its last 16 bytes or, if these have too little variety, such
// as a run of one letter, the last 16 consecutive ones with enough. A text that contains a window is
// assumed to contain the secret. So the cost depends only on the length of the text, and not on the
// number of secrets. Texts are searched without a lock.
type Guard struct {
	table atomic.Pointer[table] // nil until a secret is added

	mu         sync.Mutex
	fixed      []window            // the operator's
	flows      map[Digest][]window // of authorizations in progress
	young, old map[Owner]*issued
	windows    int // in young
}

// An issued contains what a provider has issued for a user.
type issued struct {
	latest Digest      // of the current token
	tokens [2][]window // of that token and of the one before, which may stay valid for a while
	once   [maxOnce][]window
	next   int // in once
}

// Add searches for a secret from now on. It returns false if the secret is too short or too simple
// to be searched for.
func (g *Guard) Add(secret string) bool {
	ws := windowsOf(secret)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fixed = append(g.fixed, ws...)
	g.insert(ws)
	return ws != nil
}

// Hold searches for the secrets of an authorization until it is released.
func (g *Guard) Hold(id Digest, secrets ...string) {
	var ws []window
	for _, s := range secrets {
		ws = append(ws, windowsOf(s)...)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.flows == nil {
		g.flows = make(map[Digest][]window)
	}
	g.flows[id] = ws
	g.insert(ws)
}

// Release ends what Hold has started.
func (g *Guard) Release(id Digest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.flows, id)
}

// AddOnce searches for values that a provider has issued for a user besides the token, until
// maxOnce later ones replace them.
func (g *Guard) AddOnce(key Owner, values ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := g.of(key)
	for _, v := range values {
		ws := windowsOf(v)
		g.windows += len(ws) - len(i.once[i.next])
		i.once[i.next], i.next = ws, (i.next+1)%maxOnce
		g.insert(ws)
	}
}

// Replace searches for the secrets of a token, and for those of the one before. It returns false if
// the access token is too short or too simple to be searched for.
func (g *Guard) Replace(key Owner, access, refresh string) bool {
	latest := sha256.Sum256([]byte(access + "\x00" + refresh))
	g.mu.Lock()
	defer g.mu.Unlock()
	i := g.of(key)
	if i.latest == latest {
		return true // reported when the token was added
	}
	windows := windowsOf(access)
	fresh := append(windowsOf(refresh), windows...)
	g.windows += len(fresh) - len(i.tokens[1])
	i.latest, i.tokens = latest, [2][]window{fresh, i.tokens[0]}
	g.insert(fresh)
	return windows != nil
}

// of returns what was issued for a user. A user whose tokens were not used while those of very many
// others were is dropped until the next use. The caller holds mu.
func (g *Guard) of(key Owner) *issued {
	i := g.young[key]
	if i != nil {
		return i
	}
	if g.windows >= maxWindows || g.young == nil {
		g.old, g.young, g.windows = g.young, make(map[Owner]*issued), 0
	}
	if i = g.old[key]; i == nil {
		i = new(issued)
	}
	delete(g.old, key)
	g.young[key] = i
	g.windows += i.size()
	return i
}

func (i *issued) size() int {
	n := len(i.tokens[0]) + len(i.tokens[1])
	for _, ws := range i.once {
		n += len(ws)
	}
	return n
}

// live calls f for the windows that are searched for. The caller holds mu.
func (g *Guard) live(f func([]window)) {
	f(g.fixed)
	for _, ws := range g.flows {
		f(ws)
	}
	for _, users := range []map[Owner]*issued{g.young, g.old} {
		for _, i := range users {
			f(i.tokens[0])
			f(i.tokens[1])
			for _, ws := range i.once {
				f(ws)
			}
		}
	}
}

// insert adds windows, which must be live, to the table. If the table is full, a new one with only
// the live windows replaces it. The caller holds mu.
func (g *Guard) insert(ws []window) {
	t := g.table.Load()
	for _, w := range ws {
		if t == nil || !t.insert(w) {
			g.rebuild()
			return
		}
	}
}

func (g *Guard) rebuild() {
	n := 0
	g.live(func(ws []window) { n += len(ws) })
	t := newTable(n)
	g.live(func(ws []window) {
		for _, w := range ws {
			t.insert(w)
		}
	})
	g.table.Store(t)
}

// peels are the decodings that are applied to a text, in this order. A result is often JSON in a
// string of JSON; an address is percent-encoded before it is put in.
var peels = [...]func([]byte) ([]byte, bool){unescape, unescape, unpercent, unescape, unpercent}

// Finds reports whether a text contains a secret.
func (g *Guard) Finds(text []byte) bool {
	found, _ := g.search(text)
	return found
}

// Withheld replaces a text that contains a secret.
const Withheld = "[withheld: it had a credential in it]"

// Clean returns the text, or Withheld if it contains a secret.
func (g *Guard) Clean(text string) (clean string, found bool) {
	if g.Finds([]byte(text)) {
		return Withheld, true
	}
	return text, false
}

// Windows returns how many windows are searched for.
func (g *Guard) Windows() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.live(func(ws []window) { n += len(ws) })
	return n
}

// search is Finds, and also returns how many slots of the table it has looked at.
func (g *Guard) search(text []byte) (found bool, work int) {
	t := g.table.Load()
	if t == nil {
		return false, 0
	}
	found, work = t.search(text)
	for _, peel := range peels {
		if found {
			return true, work
		}
		inner, changed := peel(text)
		if !changed {
			continue
		}
		more := 0
		text = inner
		found, more = t.search(text)
		work += more
	}
	return found, work
}

// windowsOf returns the windows of a secret: of the secret itself, and of its base64 after 0, 1 or
// 2 bytes of a group of three. An encoding without 16 bytes of enough variety is omitted. If the
// secret itself is such a text, there are no windows.
func windowsOf(secret string) (ws []window) {
	if len(secret) < minGuarded {
		return nil
	}
	if len(secret) > maxGuarded {
		secret = secret[len(secret)-maxGuarded:]
	}
	w, ok := windowOf(secret)
	if !ok { // its base64 would be found in other texts too
		return nil
	}
	ws = append(ws, w)
	for at := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, at, at+len(secret)), secret...))
		// The characters at the ends also depend on the neighboring bytes.
		if w, ok := windowOf(encoded[(at*8+5)/6 : (at+len(secret))*8/6]); ok {
			ws = append(ws, w)
		}
	}
	return ws
}

// windowOf returns the last window of a text with enough different bytes. A text without one, such
// as a run of one letter, would be found in unrelated texts.
func windowOf(text string) (w window, ok bool) {
	plain := make([]byte, 0, len(text))
	for i := range len(text) {
		if text[i] != '\n' && text[i] != '\r' {
			plain = append(plain, comparable64(text[i]))
		}
	}
	for end := len(plain); end >= min(len(plain), windowBytes) && end >= minGuarded; end-- {
		part := plain[max(0, end-windowBytes):end]
		var seen [256]bool
		different := 0
		for _, b := range part {
			if !seen[b] {
				seen[b] = true
				different++
			}
		}
		if different >= len(part)/2 {
			for _, b := range part {
				w = w.shift(b)
			}
			w.short = len(part) % windowBytes
			return w, true
		}
	}
	return window{}, false
}

// comparable64 maps the two alphabets of base64 to one.
func comparable64(b byte) byte {
	switch b {
	case '-':
		return '+'
	case '_':
		return '/'
	}
	return b
}
