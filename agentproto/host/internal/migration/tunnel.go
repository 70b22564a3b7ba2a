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

// A tunnel lets the tool server of one host reach the same tool server of another host although that one listens on loopback. The
// source runtime gives its tool server one of its own addresses as the destination_url and forwards the requests to the
// destination runtime, which forwards them to its own tool server. See doc/protocol.md §10.8.
//
//	tool server ──► entry: source runtime ──► exit: destination runtime ──► tool server
//	            HTTP                     sealed                         HTTP
//
// A tunnel passes the request for the manifest, which shows whether it is the right tool server, and requests below /migrate,
// with which the tool servers hand over the session. It passes nothing else, not even /migrate itself, which only a runtime may
// post.

// TunnelPath is the path of tunnels, below the public URL of a host. A POST to it is the exit. Below it are the entries, one for
// each session, tool server and destination.
const TunnelPath = "/rap/v1/tunnel"

// TunnelHeader contains the description of a request through a tunnel, sealed for the host at the exit.
const TunnelHeader = "Millrace-Tunnel"

// The limits of tunnels. A request may also take as long as host.Timeouts.Migrate.
const (
	MaxTunnelled   = 256 << 20 // bytes of a request
	TunnelRequests = 16        // at once, at each end
	maxTunnels     = 4096      // open at an exit
	maxTunnelSeen  = 8192      // requests accepted in 10 minutes, which are remembered so that none is accepted twice
	TunnelDoubt    = time.Hour // how long a tool server may ask for the outcome of a failed move
	maxTunnelToken = 4 << 10
)

// A tunnelEnd is the target of an entry.
type tunnelEnd struct {
	Host    string // public URL of the runtime at the exit
	Session string
	Toolset string // the name in its manifest
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
	Length      int64 // of the body; -1 if unknown
}

// A TunnelAnswer is the answer of the tool server.
type TunnelAnswer struct {
	Status      int
	ContentType string
	RetryAfter  string
	Body        []byte
}

// tunnels are the tunnels of a process.
type tunnels struct {
	envelope *envelope.Envelope
	key      []byte // for the addresses of entries
	slots    chan struct{}
	began    time.Time

	mu    sync.Mutex
	exits map[tunnelExit]time.Time // the open ones, and until when they are open
	seen  [2]map[string]bool       // nonces of the last 10 to 20 minutes
	swept time.Time
}

// A tunnelExit is a tool server of this host that another one may reach for a session.
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

// entry returns the path of an entry. It always returns the same path for the same target: a tool server that is asked again
// whether it has moved a session compares addresses, and one that is unsure asks at the address it was given.
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

// open is the inverse of entry: it returns the target of an entry, and the rest of the path.
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

// passes reports whether a request may pass a tunnel.
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

// opens lets another host reach a tool server for a session, for as long as the move may take and some time longer, because a
// failed move may leave the tool server at the source unsure.
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

// admit returns the status with which a request is refused at the exit, or 0 to admit it. A request is admitted once. Requests
// sent before this process started may have been admitted by an earlier one.
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

// needsTunnel reports whether a tool server at base, at another host, can be reached only through its runtime: it is on loopback,
// and on another machine. Two runtimes with the same host name or address in their URLs are assumed to be on one machine.
func (mg *Migrator) needsTunnel(base, host string) bool {
	at, err1 := url.Parse(base)
	here, err2 := url.Parse(mg.publicURL)
	there, err3 := url.Parse(host)
	return errors.Join(err1, err2, err3) == nil && peer.IsLoopback(at.Hostname()) && !strings.EqualFold(here.Hostname(), there.Hostname())
}

// tunnelTo returns the base URL under which a tool server of this host reaches the same server at another host.
func (mg *Migrator) tunnelTo(host, session, toolset string) string {
	return mg.publicURL + mg.tunnels.entry(mg.publicURL, tunnelEnd{strings.TrimSuffix(host, "/"), session, toolset})
}
