package toolserver

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/agentproto/internal/tools"
	"golang.org/x/oauth2"
)

// An authorization waits for a user at a provider. It is found by the digest of
// the state parameter alone, and everything that the redirect is trusted for is
// in it: nothing about the user is taken from the redirect itself.
type authorization struct {
	authorizationText
	id, start digest // of the state, and of the secret of the start page
	provider  *provider
	done      chan outcome // has room for the one outcome
}

// An authorizationText is what is kept of an authorization, encrypted (case O23).
// The members from Issuer on are those of the provider at that time: an answer is
// not sent to a provider that was configured in between.
type authorizationText struct {
	Call     digest // whose authorization it is
	Name     tools.Name
	Runtime  string
	User     string
	Provider string
	Scopes   []string // that are asked for
	Need     []string // without which the tool cannot do
	State    string
	Verifier string // of PKCE; it does not leave the server except to the token endpoint
	Nonce    string
	Secret   string // of the start page's address
	Browser  string // the cookie of the browser that opened the start page; empty without one
	Expires  time.Time

	Issuer, AuthURL, TokenURL, ClientID, RedirectURL string
}

// An outcome is how an authorization ended.
type outcome struct {
	err   error
	token *UserToken // not saved yet; nil if it is, or if err is not
	code  [codeParts]int
}

func (a *authorization) key() TokenKey { return TokenKey{a.Runtime, a.User, a.Provider} }

// address returns the provider's page, with the state in it.
func (a *authorization) address() string {
	params := append([]oauth2.AuthCodeOption{oauth2.S256ChallengeOption(a.Verifier)}, a.provider.params...)
	if a.provider.verifier != nil {
		params = append(params, oauth2.SetAuthURLParam("nonce", a.Nonce))
	}
	known := a.provider.config // which is not copied: it has a cache in it
	config := oauth2.Config{ClientID: known.ClientID, Endpoint: known.Endpoint, RedirectURL: known.RedirectURL, Scopes: a.Scopes}
	return config.AuthCodeURL(a.State, params...)
}

// from notes, or compares, which provider an authorization is for.
func (a *authorizationText) from(p *provider) authorizationText {
	t := *a
	t.Issuer, t.AuthURL, t.TokenURL, t.ClientID, t.RedirectURL = p.Issuer, p.AuthURL, p.TokenURL, p.ClientID, p.config.RedirectURL
	return t
}

func (a *authorizationText) isFrom(p *provider) bool {
	return a.Issuer == p.Issuer && a.AuthURL == p.AuthURL && a.TokenURL == p.TokenURL && a.ClientID == p.ClientID && a.RedirectURL == p.config.RedirectURL
}

// states are the authorizations that users may complete: each by the digest of its
// state and, if there are start pages, of the secret in the address of that page.
// They are in a store as well, before anybody hears of them, and out of it before
// they are used.
//
// An authorization that is completed stays in byCall until its call has seen how:
// after a restart the user may be faster than the call, which begins anew.
type states struct {
	store   store
	keys    *Keyset
	guard   *leak.Guard // of what is drawn for authorizations, while they are under way
	browser bool        // there are start pages

	mu     sync.Mutex
	open   map[digest]*authorization
	starts map[digest]*authorization
	byCall map[digest]*authorization
}

// stateBucket is the bucket of the store with the authorizations.
const stateBucket = "authorizations"

// keepExpired is for how long after its expiry an authorization is kept for a call
// that begins anew after a restart and must be told.
const keepExpired = 24 * time.Hour

// newState returns a random text of 256 bits and its digest.
func newState() (string, digest) {
	state := rand.Text() + rand.Text()
	return state, sha256.Sum256([]byte(state))
}

// newAuthorization returns an authorization that nobody knows of yet.
func (st *states) newAuthorization(t authorizationText, p *provider) *authorization {
	a := &authorization{provider: p, done: make(chan outcome, 1)}
	a.authorizationText = t.from(p)
	a.State, a.id = newState()
	a.Secret, a.start = newState()
	a.Verifier = oauth2.GenerateVerifier()
	a.Nonce = rand.Text()
	if st.browser {
		a.Browser, _ = newState()
	}
	return a
}

// load reads what the store has kept.
func (st *states) load(providers map[string]*provider, now time.Time) (lost int, err error) {
	var found []*authorization
	var useless [][]byte
	if err := st.store.view(func(tx tx) error {
		found, useless, lost = nil, nil, 0
		tx.each(stateBucket, nil, func(id, sealed []byte) bool {
			a := &authorization{done: make(chan outcome, 1)}
			text, err := st.keys.open(sealed, stateContext(id))
			if err == nil {
				err = json.Unmarshal(text, &a.authorizationText)
			}
			a.provider = providers[a.Provider]
			if err != nil || a.provider == nil || !a.isFrom(a.provider) || (a.Browser != "") != st.browser || now.Sub(a.Expires) > keepExpired {
				useless = append(useless, slices.Clone(id))
				if err != nil {
					lost++
				}
				return true
			}
			a.id, a.start = digest(id), sha256.Sum256([]byte(a.Secret))
			found = append(found, a)
			return true
		})
		return nil
	}); err != nil {
		return 0, err
	}
	st.mu.Lock()
	for _, a := range found {
		st.add(a)
	}
	st.mu.Unlock()
	return lost, st.store.update(func(tx tx) error {
		for _, id := range useless {
			if err := tx.delete(stateBucket, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// stateContext returns what an authorization is bound to when it is encrypted.
func stateContext(id []byte) []byte {
	list, _ := json.Marshal([]string{"authorization", hex.EncodeToString(id)})
	return list
}

// add makes an authorization known. The caller holds mu.
func (st *states) add(a *authorization) {
	if st.open == nil {
		st.open = make(map[digest]*authorization)
		st.starts = make(map[digest]*authorization)
		st.byCall = make(map[digest]*authorization)
	}
	st.open[a.id] = a
	st.starts[a.start] = a
	st.byCall[a.Call] = a
	if a.Browser == "" {
		st.guard.Hold(a.id, a.Verifier) // the runtime is told the state
	} else {
		st.guard.Hold(a.id, a.Verifier, a.Browser, a.State)
	}
}

// put keeps an authorization and makes it known.
func (st *states) put(a *authorization) error {
	text, err := json.Marshal(a.authorizationText)
	if err != nil {
		return err
	}
	sealed, err := st.keys.seal(text, stateContext(a.id[:]))
	if err != nil {
		return err
	}
	if err := st.store.update(func(tx tx) error { return tx.put(stateBucket, a.id[:], sealed) }); err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.add(a)
	return nil
}

// dropAuthorizations forgets what nobody waits for, such as the authorization of a call that was
// cancelled just before the process ended (case K07).
func (s *Server) dropAuthorizations() {
	s.states.mu.Lock()
	all := slices.Collect(maps.Values(s.states.byCall))
	s.states.mu.Unlock()
	for _, a := range all {
		if _, alive := s.ports.Alive.Get(a.Name); !alive {
			if err := s.states.drop(a); err != nil {
				s.log.Error("authorization not forgotten", "provider", a.Provider, "error", err)
			}
		}
	}
}

// of returns the authorization that a call has been waiting for, or nil.
func (st *states) of(call digest) *authorization {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.byCall[call]
}

// drop forgets an authorization, so that a redirect that comes later is refused.
func (st *states) drop(a *authorization) error {
	st.mu.Lock()
	st.close(a)
	if st.byCall[a.Call] == a {
		delete(st.byCall, a.Call)
	}
	st.mu.Unlock()
	st.guard.Release(a.id)
	return st.erase(a)
}

// close takes an authorization out of reach of users. The caller holds mu.
func (st *states) close(a *authorization) {
	delete(st.open, a.id)
	delete(st.starts, a.start)
}

func (st *states) erase(a *authorization) error {
	return st.store.update(func(tx tx) error { return tx.delete(stateBucket, a.id[:]) })
}

// take returns the authorization that a redirect belongs to, once. It returns nil
// if there is none, if it is another provider's or has expired, or if the redirect
// came in another browser than the one that opened the start page; the
// authorization then goes on waiting.
func (st *states) take(state string, p *provider, cookies []string) (*authorization, error) {
	d := sha256.Sum256([]byte(state))
	st.mu.Lock()
	a := st.open[d]
	if a == nil || a.provider != p || time.Now().After(a.Expires) || !slices.ContainsFunc(cookies, a.opened) {
		st.mu.Unlock()
		return nil, nil
	}
	st.close(a)
	st.mu.Unlock()
	return a, st.erase(a) // a state is used once, whatever happens to the process
}

// opened reports whether a cookie is the one of the authorization's start page.
func (a *authorization) opened(cookie string) bool {
	return subtle.ConstantTimeCompare([]byte(a.Browser), []byte(cookie)) == 1
}

// begin returns the authorization of a start page.
func (st *states) begin(secret string) *authorization {
	d := sha256.Sum256([]byte(secret))
	st.mu.Lock()
	defer st.mu.Unlock()
	a := st.starts[d]
	if a == nil || time.Now().After(a.Expires) {
		return nil
	}
	return a
}

// settled ends the other authorizations that a token makes unnecessary: the same
// user's, for no more than it is good for.
func (st *states) settled(key TokenKey, t *UserToken) (ended []*authorization) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, a := range st.open {
		if a.key() == key && covers(t.Scopes, a.Need) {
			st.close(a)
			ended = append(ended, a)
		}
	}
	return ended
}

// covers reports whether every scope of need is in have.
func covers(have, need []string) bool {
	return !slices.ContainsFunc(need, func(s string) bool { return !slices.Contains(have, s) })
}
