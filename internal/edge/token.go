package edge

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What one address may get wrong: maxGuesses tokens within guessWindow. After that its wrong
// tokens are answered 429 until the window is over.
const (
	maxGuesses  = 20
	guessWindow = 10 * time.Second
	maxGuessers = 1024 // addresses whose guesses are counted apart
)

// A Token is the bearer token of a listener. Only its digest is kept.
type Token struct {
	digest [sha256.Size]byte

	mu      sync.Mutex
	guesses map[string]*guesses // by network
}

// guesses are the wrong tokens of one network since a time.
type guesses struct {
	count int
	since time.Time
}

// NewToken returns the token with this text. The text has to be one that nobody can guess:
// a request with the right token is served however many wrong ones came before, or else
// anybody on a machine could lock everybody else out.
func NewToken(text string) *Token {
	return &Token{digest: sha256.Sum256([]byte(text)), guesses: map[string]*guesses{}}
}

// People returns a handler that passes to h what has the token: as a bearer token, or as the password
// of any name, for which browsers ask who opens a page.
func (t *Token) People(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t.admitsBy(w, r, true) {
			h.ServeHTTP(w, r)
		}
	})
}

func (t *Token) admits(w http.ResponseWriter, r *http.Request) bool { return t.admitsBy(w, r, false) }

// admitsBy reports whether r has the token, perhaps as a password, and answers r if not. A request without any token
// is not counted as a guess, since a page in a browser can send those.
func (t *Token) admitsBy(w http.ResponseWriter, r *http.Request, password bool) bool {
	given := r.Header.Values("Authorization")
	if len(given) == 1 {
		scheme, text, _ := strings.Cut(given[0], " ")
		bearer := strings.EqualFold(scheme, "Bearer")
		if _, pass, ok := r.BasicAuth(); ok && password {
			bearer, text = true, pass
		}
		if bearer {
			// Digests have one length, so the comparison takes the same time for every text.
			digest := sha256.Sum256([]byte(strings.TrimSpace(text)))
			if subtle.ConstantTimeCompare(digest[:], t.digest[:]) == 1 {
				return true
			}
			if wait := t.guessed(r.RemoteAddr, time.Now()); wait > 0 {
				w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
				Refuse(w, r, http.StatusTooManyRequests, "too many wrong tokens")
				return false
			}
		}
	}
	if password {
		w.Header().Set("WWW-Authenticate", `Basic realm="the token is the password", charset="UTF-8"`)
		Refuse(w, r, http.StatusUnauthorized, "the token is asked for, as a bearer token or as the password of any name")
		return false
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	Refuse(w, r, http.StatusUnauthorized, "the header Authorization does not have the token: Bearer TOKEN")
	return false
}

// guessed counts a wrong token, and returns for how long further ones are too many, or 0.
func (t *Token) guessed(from string, now time.Time) (wait time.Duration) {
	network := networkOf(address(from))
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.guesses[network]
	if g == nil {
		if len(t.guesses) >= maxGuessers {
			for network, g := range t.guesses {
				if now.Sub(g.since) >= guessWindow {
					delete(t.guesses, network)
				}
			}
		}
		if len(t.guesses) >= maxGuessers { // the others have one count together
			network = ""
			g = t.guesses[network]
		}
	}
	if g == nil || now.Sub(g.since) >= guessWindow {
		g = &guesses{since: now}
		t.guesses[network] = g
	}
	if g.count++; g.count <= maxGuesses {
		return 0
	}
	return guessWindow - now.Sub(g.since)
}

// address is the RemoteAddr of a request as a [net.Addr].
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }
