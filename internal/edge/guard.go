package edge

import (
	"encoding/json"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
)

// A Policy says who may use a listener. The zero value accepts requests of programs on any machine that
// name an address of the listener, without authentication.
type Policy struct {
	// Token is required in the Authorization header of a request. Nil means no token.
	Token *Token
	// Hosts are names, with or without a port, to which a request may be addressed, besides the address at
	// which it arrived and, on loopback, localhost. A name without a port is valid for every port.
	Hosts []string
	// AnyHost disables the check of the Host.
	AnyHost bool
	// Open are the paths of documents that require no token, such as the metadata of RFC 9728.
	Open map[string]bool
	// JSON refuses bodies that are not application/json.
	JSON bool
	// Pages begins the paths of pages for browsers. The guard checks only their Host. Empty means that
	// there are none.
	Pages string
}

// Guard returns a handler that passes to h what a policy allows, and answers all other requests:
//
//	421  it is addressed to another host: a name in a page's address may be made to
//	     resolve to this machine
//	404  its path is not in its shortest form
//	403  a browser sent it for a page
//	401  the token is missing or wrong
//	429  the token was wrong too often
//	400  a GET with a body
//	415  a body that is encoded, or not JSON where that is required
//
// Each check costs less than the next, and none reads the body. Answers say in JSON what is wrong. There
// are no CORS headers: no page may read anything.
func Guard(p Policy, h http.Handler) http.Handler {
	hosts := newHosts(p.Hosts)
	bodies := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if problem, status := wrongBody(p, r); status != 0 {
			Refuse(w, r, status, problem)
			return
		}
		h.ServeHTTP(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		if !p.AnyHost && !hosts.allow(r) {
			Refuse(w, r, http.StatusMisdirectedRequest, "not addressed to this server: the Host is not one of its addresses")
			return
		}
		if !isClean(r.URL.EscapedPath()) {
			Refuse(w, r, http.StatusNotFound, "not found")
			return
		}
		if p.Pages != "" && strings.HasPrefix(r.URL.EscapedPath(), p.Pages) {
			h.ServeHTTP(w, r)
			return
		}
		header.Set("Cache-Control", "no-store")
		if fromPage(r) {
			Refuse(w, r, http.StatusForbidden, "requests from pages in a browser are not accepted")
			return
		}
		if p.Token != nil && !p.Open[r.URL.EscapedPath()] {
			p.Token.admit(w, r, bodies)
			return
		}
		bodies.ServeHTTP(w, r)
	})
}

// isClean reports whether an escaped path is unchanged by [path.Clean]. Then a handler sees the same path
// as the guard, and a mux does not redirect.
func isClean(escaped string) bool {
	clean := path.Clean(escaped)
	return strings.HasPrefix(escaped, "/") && (escaped == clean || escaped == clean+"/")
}

// fromPage reports whether a browser sent a request for a page: such a request has an Origin, or a header
// that says that the user did not make it directly.
func fromPage(r *http.Request) bool {
	if len(r.Header.Values("Origin")) > 0 {
		return true
	}
	return slices.ContainsFunc(r.Header.Values("Sec-Fetch-Site"), func(site string) bool {
		return site != "none" && site != "same-origin"
	})
}

// wrongBody returns what is wrong with the body of a request according to its headers. A request without a
// body needs no content type.
func wrongBody(p Policy, r *http.Request) (problem string, status int) {
	for _, encoding := range r.Header.Values("Content-Encoding") {
		if !strings.EqualFold(encoding, "identity") {
			return "Content-Encoding is not supported", http.StatusUnsupportedMediaType
		}
	}
	if !hasBody(r) {
		return "", 0
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return "a " + r.Method + " has no body", http.StatusBadRequest
	}
	types := r.Header.Values("Content-Type")
	if !p.JSON {
		return "", 0
	}
	if len(types) == 1 {
		if media, _, err := mime.ParseMediaType(types[0]); err == nil && media == "application/json" {
			return "", 0
		}
	}
	return "Content-Type is not application/json", http.StatusUnsupportedMediaType
}

// Refuse answers a refused request with {"error": problem}. If it has a body, Refuse closes the connection,
// so that the rest of the body need not be read.
func Refuse(w http.ResponseWriter, r *http.Request, status int, problem string) {
	if hasBody(r) {
		w.Header().Set("Connection", "close")
	}
	text, _ := json.Marshal(map[string]string{"error": problem}) // never fails for strings
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
}
