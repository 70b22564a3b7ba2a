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

// Limits for wrong tokens: one address may send maxGuesses of them within guessWindow. After that its wrong tokens are answered
// with 429 until the window is over.
const (
	maxGuesses  = 20
	guessWindow = 10 * time.Second
	maxGuessers = 1024 // addresses whose guesses are counted separately
)

// A Token is the bearer token of a listener. It keeps only the digest.
type Token struct {
	// Others accepts tokens besides this one, such as those of users. A request with an accepted token continues with the
	// returned context, and end is called when the request is answered. Otherwise the error says why the token is not accepted,
	// in words for its holder; it is [ErrUnchecked] if that cannot be decided now. Nil accepts none. Others must be set before
	// the token is used.
	Others func(r *http.Request, text string) (ctx context.Context, end func(), err error)
	// Metadata is the URL of the metadata of the listener as a protected resource (RFC 9728). Clients without a valid token
	// receive it. Scope is the scope that they should request. Empty means that there is none. They must be set before the token
	// is used.
	Metadata, Scope string

	digest [sha256.Size]byte

	mu      sync.Mutex
	guesses map[string]*guesses // by network
}

// ErrUnchecked is the error for a token that cannot be checked, because the server that can check it is not reachable.
var ErrUnchecked = errors.New("the token cannot be checked now: try again")

// guesses counts the wrong tokens of one network since a time.
type guesses struct {
	count int
	since time.Time
}

// NewToken returns the token with this text. The text must be impossible to guess: a request with the right token is served
// however many wrong ones came before, since otherwise anyone on a machine could lock everyone else out.
func NewToken(text string) *Token {
	return &Token{digest: sha256.Sum256([]byte(text)), guesses: map[string]*guesses{}}
}

// People returns a handler that passes a request to h only if it has the token, either as a bearer token or as the password of
// any user name. A browser asks its user for the password.
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

// admit passes a request with this token, or one that Others accepts, to h, and answers all other requests. A request without a
// token does not count as a guess, since a page in a browser can send such requests.
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
	if given { // RFC 6750, section 3.1: no error code if there was no token
		problem = "invalid_token"
	}
	t.Challenge(w, problem, t.Scope)
	Refuse(w, r, http.StatusUnauthorized, wrong.Error())
}

// Challenge sets the WWW-Authenticate header of an answer with status 401 or 403. It contains an error and a scope of RFC 6750
// unless they are empty, and the URL of the metadata.
func (t *Token) Challenge(w http.ResponseWriter, problem, scope string) {
	var all []string
	for _, p := range [][2]string{{"error", problem}, {"scope", scope}, {"resource_metadata", t.Metadata}} {
		if p[1] != "" {
			all = append(all, p[0]+`="`+p[1]+`"`)
		}
	}
	w.Header().Set("WWW-Authenticate", strings.TrimSpace("Bearer "+strings.Join(all, ", ")))
}

// bearerOf returns the bearer token of a request, which is in its only Authorization header. A token in a URL or a body does not
// count.
func bearerOf(r *http.Request) (text string, ok bool) {
	given := r.Header.Values("Authorization")
	if len(given) != 1 {
		return "", false
	}
	scheme, text, _ := strings.Cut(given[0], " ")
	return strings.TrimSpace(text), strings.EqualFold(scheme, "Bearer")
}

// is reports whether a text is the token. All digests have the same length, so the comparison takes the same time for every text.
func (t *Token) is(text string) bool {
	digest := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(digest[:], t.digest[:]) == 1
}

// tooMany counts a wrong token. It answers the request and reports true if there were too many.
func (t *Token) tooMany(w http.ResponseWriter, r *http.Request) bool {
	wait := t.guessed(r.RemoteAddr, time.Now())
	if wait <= 0 {
		return false
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
	Refuse(w, r, http.StatusTooManyRequests, "too many wrong tokens")
	return true
}

// guessed counts a wrong token. It returns how long further ones will be too many, or 0.
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
		if len(t.guesses) >= maxGuessers { // all others share one count
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

// An address is the RemoteAddr of a request as a [net.Addr].
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }
