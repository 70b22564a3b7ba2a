package edge

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
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
	// Others admits tokens besides this one, such as those of users. A request with a token that it takes goes on with the context
	// that it returns, and end is called when the request is answered. An error is why it does not take one, in words for whoever
	// has it: [ErrUnchecked] if that cannot be told now. Nil takes none. It is set before the token is used.
	Others func(r *http.Request, text string) (ctx context.Context, end func(), err error)
	// Metadata is the URL of what the listener says of itself as a protected resource, of RFC 9728; clients that have no good token
	// are told. Scope is what those should ask for. Empty means that there is none. They are set before the token is used.
	Metadata, Scope string

	digest [sha256.Size]byte

	mu      sync.Mutex
	guesses map[string]*guesses // by network
}

// ErrUnchecked is the error of a token of which it cannot be told whether it is good: who can tell is not reached.
var ErrUnchecked = errors.New("the token cannot be checked now: try again")

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

// People returns a handler that passes to h what has the token, and no other one: as a bearer token, or as the password
// of any name, for which browsers ask who opens a page.
func (t *Token) People(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, given := bearerOf(r)
		if _, password, ok := r.BasicAuth(); ok && !given {
			text, given = password, true
		}
		switch {
		case given && t.is(text):
			h.ServeHTTP(w, r)
		case given && t.tooMany(w, r):
		default:
			w.Header().Set("WWW-Authenticate", `Basic realm="the token is the password", charset="UTF-8"`)
			Refuse(w, r, http.StatusUnauthorized, "the token is asked for, as a bearer token or as the password of any name")
		}
	})
}

// admit passes a request that has the token, or one of the others, to h, and answers the rest. A request without any token is
// not counted as a guess, since a page in a browser can send those.
func (t *Token) admit(w http.ResponseWriter, r *http.Request, h http.Handler) {
	text, given := bearerOf(r)
	if given && t.is(text) {
		h.ServeHTTP(w, r)
		return
	}
	wrong := errors.New("the header Authorization does not have the token: Bearer TOKEN")
	if given && t.Others != nil {
		ctx, end, err := t.Others(r, text)
		switch {
		case err == nil:
			defer end()
			h.ServeHTTP(w, r.WithContext(ctx))
			return
		case errors.Is(err, ErrUnchecked):
			w.Header().Set("Retry-After", "5")
			Refuse(w, r, http.StatusServiceUnavailable, err.Error())
			return
		}
		wrong = err
	}
	if given && t.tooMany(w, r) {
		return
	}
	problem := ""
	if given { // RFC 6750, section 3.1: without a token nothing is said of errors
		problem = "invalid_token"
	}
	t.Challenge(w, problem, t.Scope)
	Refuse(w, r, http.StatusUnauthorized, wrong.Error())
}

// Challenge sets the header WWW-Authenticate of an answer of 401 or 403, with an error and a scope of RFC 6750 unless they are empty,
// and with where the metadata are.
func (t *Token) Challenge(w http.ResponseWriter, problem, scope string) {
	var all []string
	for _, p := range [][2]string{{"error", problem}, {"scope", scope}, {"resource_metadata", t.Metadata}} {
		if p[1] != "" {
			all = append(all, p[0]+`="`+p[1]+`"`)
		}
	}
	w.Header().Set("WWW-Authenticate", strings.TrimSpace("Bearer "+strings.Join(all, ", ")))
}

// bearerOf returns the bearer token of a request: that of its one header Authorization. What is in a URL or a body is none.
func bearerOf(r *http.Request) (text string, ok bool) {
	given := r.Header.Values("Authorization")
	if len(given) != 1 {
		return "", false
	}
	scheme, text, _ := strings.Cut(given[0], " ")
	return strings.TrimSpace(text), strings.EqualFold(scheme, "Bearer")
}

// is reports whether a text is the token. Digests have one length, so the comparison takes the same time for every text.
func (t *Token) is(text string) bool {
	digest := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(digest[:], t.digest[:]) == 1
}

// tooMany counts a wrong token, and answers the request if there were too many.
func (t *Token) tooMany(w http.ResponseWriter, r *http.Request) bool {
	wait := t.guessed(r.RemoteAddr, time.Now())
	if wait <= 0 {
		return false
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
	Refuse(w, r, http.StatusTooManyRequests, "too many wrong tokens")
	return true
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
