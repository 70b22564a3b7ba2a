package migration

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/internal/envelope"
)

// A tunnel lets the tool server of one host reach the same tool server of another, though that
// listens on loopback: the source runtime gives its tool server an address of its own as the
// destination_url, and passes on what comes there to the destination runtime, which passes it on to
// its own tool server. See doc/protocol.md §10.8.
//
//	tool server ──► entry: source runtime ──► exit: destination runtime ──► tool server
//	            HTTP                     sealed                         HTTP
//
// What passes is the request for the manifest, which says whether it is the right tool server,
// and requests below /migrate, with which the tool servers hand the session over. Nothing else
// does, /migrate itself included: that is for a runtime to ask.

// TunnelPath is where tunnels are, below the public URL of a host. A POST to it is the exit; below
// it are the entries, one for each session, tool server and destination.
const TunnelPath = "/rap/v1/tunnel"

// TunnelHeader has what a request through a tunnel is, sealed for the host at the exit.
const TunnelHeader = "Millrace-Tunnel"

// Bounds of tunnels. A request may also take as long as host.Timeouts.Migrate.
const (
	MaxTunnelled   = 256 << 20 // bytes of a request
	TunnelRequests = 16        // at once, at either end
	maxTunnels     = 4096      // that are open at an exit
	maxTunnelSeen  = 8192      // requests that are taken in 10 minutes, which are remembered so that none comes twice
	TunnelDoubt    = time.Hour // how long a tool server may ask what became of a move that has failed
	maxTunnelToken = 4 << 10
)

// A tunnelEnd is what an entry leads to.
type tunnelEnd struct {
	Host    string // public URL of the runtime at the exit
	Session string
	Toolset string // by the name in its manifest
}

// A TunnelHead describes a request through a tunnel.
type TunnelHead struct {
	Nonce       string
	Sent        time.Time
	Session     string
	Toolset     string
	Method      string
	Path        string
	ContentType string
	Length      int64 // of the body; -1 if it is not known
}

// A TunnelAnswer is what the tool server has answered.
type TunnelAnswer struct {
	Status      int
	ContentType string
	RetryAfter  string
	Body        []byte
}

// tunnels are the tunnels of a process.
type tunnels struct {
	envelope *envelope.Envelope
	key      []byte // of the addresses of entries
	slots    chan struct{}
	began    time.Time

	mu    sync.Mutex
	exits map[tunnelExit]time.Time // that are open, and until when
	seen  [2]map[string]bool       // nonces of the last 10 to 20 minutes
	swept time.Time
}

// A tunnelExit is a tool server of this host that another one may reach because of a session.
type tunnelExit struct{ session, toolset string }

// newTunnels returns nil without a key.
func newTunnels(migrationKey []byte) (*tunnels, error) {
	if migrationKey == nil {
		return nil, nil
	}
	e, err := envelope.New(migrationKey, "runtime tunnel")
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Key(sha256.New, migrationKey, nil, "millrace tunnel entry v1", sha256.Size)
	if err != nil {
		return nil, err
	}
	return &tunnels{
		envelope: e, key: key, slots: make(chan struct{}, TunnelRequests), began: time.Now(),
		exits: map[tunnelExit]time.Time{}, seen: [2]map[string]bool{{}, {}}, swept: time.Now(),
	}, nil
}

// entry returns the path of an entry. It is the same whenever it is asked for: a tool server that
// is asked again whether it has moved a session compares addresses, and one in doubt asks at the
// one that it was given.
func (t *tunnels) entry(public string, to tunnelEnd) string {
	text, err := json.Marshal(&to, json.Deterministic(true))
	if err != nil {
		panic("host: a tunnel cannot be encoded: " + err.Error()) // strings can be
	}
	b64 := base64.RawURLEncoding.EncodeToString
	return TunnelPath + "/" + b64(text) + "." + b64(t.sign(public, text))
}

func (t *tunnels) sign(public string, text []byte) []byte {
	h := hmac.New(sha256.New, t.key)
	h.Write([]byte(public + "\x00"))
	h.Write(text)
	return h.Sum(nil)
}

// open is the inverse of entry: it returns where an entry leads to, and the path behind it.
func (t *tunnels) open(public, at string) (to tunnelEnd, rest string, err error) {
	token, ok := strings.CutPrefix(at, TunnelPath+"/")
	if !ok {
		return to, "", capability.ErrForged
	}
	token, rest, _ = strings.Cut(token, "/")
	first, second, _ := strings.Cut(token, ".")
	if len(token) > maxTunnelToken {
		return to, "", capability.ErrForged
	}
	text, err1 := base64.RawURLEncoding.DecodeString(first)
	sum, err2 := base64.RawURLEncoding.DecodeString(second)
	if errors.Join(err1, err2) != nil || !hmac.Equal(sum, t.sign(public, text)) {
		return to, "", capability.ErrForged
	}
	if err := json.Unmarshal(text, &to); err != nil {
		return to, "", capability.ErrForged
	}
	return to, "/" + rest, nil
}

// passes reports whether a request is one that may pass a tunnel.
func passes(method, at string) bool {
	if at == discovery.Path {
		return method == http.MethodGet
	}
	below, ok := strings.CutPrefix(at, "/migrate/")
	if !ok || below == "" || len(at) > 256 || path.Clean(at) != at {
		return false
	}
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./", r)
	}
	return (method == http.MethodPost || method == http.MethodPut) && !strings.ContainsFunc(below, func(r rune) bool { return !plain(r) })
}

// opens lets another host reach a tool server because of a session, for as long as its move may
// take and, as that may fail and leave the tool server at the source in doubt, some time more.
func (t *tunnels) opens(session, toolset string, within time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for e, until := range t.exits {
		if now.After(until) {
			delete(t.exits, e)
		}
	}
	if len(t.exits) >= maxTunnels {
		return errors.New("too many sessions are on their way")
	}
	t.exits[tunnelExit{session, toolset}] = now.Add(within + TunnelDoubt)
	return nil
}

// closes ends the tunnels of a session.
func (t *tunnels) closes(session string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := range t.exits {
		if e.session == session {
			delete(t.exits, e)
		}
	}
}

// admit returns the status with which a request is refused at the exit, 0 if it is not. A request
// is admitted once; what was sent before this process began may have been admitted by another.
func (t *tunnels) admit(h *TunnelHead) (status int, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if until, open := t.exits[tunnelExit{h.Session, h.Toolset}]; !open || now.After(until) || !passes(h.Method, h.Path) {
		return http.StatusNotFound, "no such session is on its way here, or the request is not one of its move"
	}
	if now.Sub(t.swept) > 2*envelope.Tolerance {
		t.seen, t.swept = [2]map[string]bool{t.seen[1], {}}, now
	}
	switch {
	case h.Sent.Before(t.began), t.seen[0][h.Nonce], t.seen[1][h.Nonce]:
		return http.StatusConflict, "this request came before"
	case len(t.seen[1]) >= maxTunnelSeen:
		return http.StatusServiceUnavailable, "try again later"
	}
	t.seen[1][h.Nonce] = true
	return 0, ""
}

// needsTunnel reports whether a tool server at base, at another host, can only be reached through
// its runtime: it is on loopback, and that is another machine's. Two runtimes that are reached
// under one host name or address are taken for being on one machine.
func (mg *Migrator) needsTunnel(base, host string) bool {
	at, err1 := url.Parse(base)
	here, err2 := url.Parse(mg.publicURL)
	there, err3 := url.Parse(host)
	return errors.Join(err1, err2, err3) == nil && peer.IsLoopback(at.Hostname()) && !strings.EqualFold(here.Hostname(), there.Hostname())
}

// tunnelTo returns the base URL under which a tool server of this host reaches one of another.
func (mg *Migrator) tunnelTo(host, session, toolset string) string {
	return mg.publicURL + mg.tunnels.entry(mg.publicURL, tunnelEnd{strings.TrimSuffix(host, "/"), session, toolset})
}
