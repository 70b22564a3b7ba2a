package inspect

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// A guard admits permitted requests and refuses all others.
type guard struct {
	options Options

	mu   sync.Mutex
	told []string // hosts that were logged
}

// mostTold is how many hosts are logged.
const mostTold = 16

func (g *guard) of(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch host := hostOf(r.Host); {
		case !g.serves(host):
			g.tell(host)
			refuse(w, http.StatusMisdirectedRequest, "this host is not served: name it in inspect.Options.Hosts")
		case foreign(r, host):
			refuse(w, http.StatusForbidden, "the request comes from a page of another site")
		case !g.admits(r):
			w.Header().Set("WWW-Authenticate", `Basic realm="millrace", charset="UTF-8"`)
			refuse(w, http.StatusUnauthorized, "the token is asked for, as a bearer token or as the password of any name")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// hostOf returns a host without its port.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// serves reports whether a request may name the host. A name of somebody else may lead to this
// server, and then a page of theirs would have the same origin.
func (g *guard) serves(host string) bool {
	if g.options.AnyHost || host == "localhost" || slices.ContainsFunc(g.options.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// foreign reports whether a browser sent the request for a page of another site.
func foreign(r *http.Request, host string) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		_, at, ok := strings.Cut(origin, "://")
		return !ok || hostOf(at) != host
	}
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// admits reports whether the request has the token.
func (g *guard) admits(r *http.Request) bool {
	if g.options.Token == "" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if _, password, ok := r.BasicAuth(); ok {
		token = password
	} else if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	token = strings.TrimSpace(token)
	is, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(g.options.Token))
	return subtle.ConstantTimeCompare(is[:], want[:]) == 1
}

func (g *guard) tell(host string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.told) < mostTold && !slices.Contains(g.told, host) {
		g.told = append(g.told, host)
		g.options.Logger.Warn("inspect: a request names a host that is not served", "host", host)
	}
}
