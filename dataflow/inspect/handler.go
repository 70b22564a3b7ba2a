package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"

	"github.com/millrace/millrace/dataflow"
)

// Options say what [Handler] shows, and to whom. The zero value is for a page on loopback.
type Options struct {
	// Name is the name of the flow on the page. Empty means "flow".
	Name string

	// Token, if not empty, is required in each request except probes, as a bearer token (RFC 6750): "Authorization:
	// Bearer …". Browsers ask for it; enter it as the password of any name. Only with a token can the page retry or
	// skip a parked record.
	Token string

	// Values shows keys and values as text: what operators remember of a key, and their entries. Not everybody who
	// operates a program may be allowed to see them.
	Values bool

	// Hosts are the names, without port, that the Host of a request may have besides
	// localhost and loopback addresses.
	Hosts []string

	// AnyHost accepts any Host. It is for a server that only permitted users can reach, under names that the server
	// does not know.
	AnyHost bool

	// Sections are additional pages.
	Sections []Section

	// Logger receives a message for each of the first sixteen names whose requests are refused because of their
	// Host. Nil means slog.Default.
	Logger *slog.Logger
}

// Handler returns a handler that shows app, as the package comment describes. All links of the page are relative, so
// it can be mounted anywhere with [http.StripPrefix]. It serves any number of requests at the same time. Handler
// panics if app is not a running flow, or a section has no title, path or function.
func Handler(app App, o Options) http.Handler {
	if app == nil {
		panic("inspect: Handler needs a flow: what dataflow.Start or durable.Start returned")
	}
	if o.Name == "" {
		o.Name = "flow"
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	Take(app) // panics if app is not a flow
	v := &view{app: app, options: o, graph: app.Graph(), past: newPast(app)}
	v.fold = v.graph.Folding()
	v.style = o.style()
	v.policy = o.policy(v.style)
	guarded := http.NewServeMux()
	guarded.HandleFunc("GET /{$}", v.servePage)
	guarded.HandleFunc("GET /v1/graph", v.serveGraph)
	guarded.HandleFunc("GET /v1/graph.svg", text("image/svg+xml", v.graph.SVG))
	guarded.HandleFunc("GET /v1/graph.dot", text("text/vnd.graphviz; charset=utf-8", v.graph.DOT))
	guarded.HandleFunc("GET /v1/graph.mmd", text("text/plain; charset=utf-8", v.graph.Mermaid))
	guarded.HandleFunc("GET /v1/status", v.serveStatus)
	guarded.HandleFunc("GET /v1/keys", v.serveKeys)
	guarded.HandleFunc("GET /v1/entries", v.serveEntries)
	guarded.HandleFunc("GET /keys", v.serveKeysPage)
	v.handlePast(guarded)
	v.handleMembers(guarded)
	for _, s := range o.Sections {
		if !s.valid() {
			panic(fmt.Sprintf("inspect: a Section needs a Title, a function, and a Path such as \"agents/\"; it has %q", s.Path))
		}
		guarded.Handle("/"+s.Path, s.serve(v))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", probe(func() []Reason { return nil }))
	mux.HandleFunc("/healthz", probe((&prober{app: app, steps: make(map[int]longer)}).reasons))
	mux.Handle("/", (&guard{options: o}).of(guarded))
	return mux
}

// A view is a flow as it is shown. A started flow gets no more operators, so graph does not change.
type view struct {
	app     App
	options Options
	graph   dataflow.Graph
	fold    dataflow.Folding // unless a request chooses another one
	style   string           // of all pages
	policy  string
	past    *past
}

func (v *view) serveStatus(w http.ResponseWriter, r *http.Request) {
	if known(w, r) {
		answerJSON(w, http.StatusOK, Take(v.app))
	}
}

func (v *view) serveGraph(w http.ResponseWriter, r *http.Request) {
	if known(w, r) {
		answerJSON(w, http.StatusOK, graphJSON(v.options.Name, v.graph))
	}
}

// text serves the result of make.
func text(kind string, make func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if known(w, r) {
			answer(w, http.StatusOK, kind, []byte(make()))
		}
	}
}

// known refuses a request with a parameter that is not one of names. Otherwise a misspelled parameter would silently
// get the answer to another question.
func known(w http.ResponseWriter, r *http.Request, names ...string) bool {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		refuse(w, http.StatusBadRequest, "the parameters cannot be read")
		return false
	}
	for name, values := range query {
		if !slices.Contains(names, name) || len(values) != 1 {
			refuse(w, http.StatusBadRequest, "a parameter is not known here, or is there twice")
			return false
		}
	}
	return true
}

// probe answers 200, or 503 with what is wrong. A probe is often public, so its answer contains codes but no names.
func probe(wrong func() []Reason) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "ask with GET")
			return
		}
		status, is, why := http.StatusOK, "ok", wrong()
		if len(why) > 0 {
			status, is = http.StatusServiceUnavailable, "not healthy"
		}
		answerJSON(w, status, struct {
			Status  string   `json:"status"`
			Reasons []Reason `json:"reasons,omitempty"`
		}{is, why})
	}
}

func refuse(w http.ResponseWriter, status int, why string) {
	answerJSON(w, status, struct {
		Error string `json:"error"`
	}{why})
}

func answerJSON(w http.ResponseWriter, status int, x any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(x); err != nil { // cannot happen with the values of this package
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	answer(w, status, "application/json", b.Bytes())
}

func answer(w http.ResponseWriter, status int, kind string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // without it, browsers send forms of this page with a null origin, as if from another site
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if h.Get("Content-Security-Policy") == "" {
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'") // pictures contain a style sheet
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}
