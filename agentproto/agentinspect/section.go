package agentinspect

import (
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/dataflow/inspect"
)

// Options are the settings of the pages.
type Options struct {
	// Answers lets viewers of the pages answer prompts. Set it only if [inspect.Options].Token, or a handler in front, restricts
	// who the viewers are. Without [inspect.Options].Values nothing can be answered.
	Answers bool
	// Note returns additional text about the tool server with a base URL, shown with its state: for example, that its program is
	// stopped because nobody uses it. It is called concurrently, once for each server shown. Nil, or a result of "", adds
	// nothing.
	Note func(url string) string
}

// Section returns the pages of a runtime. They are at agents/ below the page of its flow.
func Section(rt *host.Runtime, o Options) inspect.Section {
	v := &view{rt: rt, options: o, streams: make(chan struct{}, maxStreams)}
	return inspect.Section{Title: "Agents", Path: "agents/", Style: pageCSS, Script: pageJS, Serve: v.serve}
}

// The source files of the pages.
var (
	//go:embed page/page.css
	pageCSS string
	//go:embed page/page.js
	pageJS string
	//go:embed page/pages.html
	pagesHTML string

	pages = template.Must(template.New("pages").Funcs(inspect.Funcs()).Funcs(template.FuncMap{"query": query, "web": web, "asked": asked, "input": inputOf, "preset": preset, "presetText": presetText, "states": CallFilters}).Parse(pagesHTML))
)

// query returns parameters as the query of a link.
func query(pairs ...string) (template.URL, error) {
	if len(pairs)%2 != 0 {
		return "", errors.New("a name without a value")
	}
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return template.URL("?" + values.Encode()), nil // Encode has escaped everything
}

// web reports whether a URL may be a link: it is http or https.
func web(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// A shownPrompt is a prompt with the data that its template needs.
type shownPrompt struct {
	P       prompt
	Answers bool
	At      time.Time
	Form    *form.Form // nil for none
}

func asked(p prompt, answers bool, at time.Time) shownPrompt {
	s := shownPrompt{P: p, Answers: answers, At: at}
	if f, err := form.Parse(p.Form); err == nil {
		s.Form = f
	}
	return s
}

// A view serves the pages of a runtime.
type view struct {
	rt      *host.Runtime
	options Options
	streams chan struct{} // one slot for each transcript that is being sent
}

// A request is a request for a page, or for JSON.
type request struct {
	w    http.ResponseWriter
	r    *http.Request
	page *inspect.Page
	json bool
}

// A problem says why a request is refused.
type problem struct {
	status int
	why    string
}

func (p problem) Error() string { return p.why }

func (v *view) serve(w http.ResponseWriter, r *http.Request, page *inspect.Page) {
	path, isJSON := strings.CutPrefix(r.URL.Path, "/v1")
	q := request{w, r, page, isJSON}
	if r.Method == http.MethodPost && path == "/answers" && !isJSON {
		q.answer(v.takeAnswer(q))
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		page.Refuse(w, http.StatusMethodNotAllowed, "ask with GET")
		return
	}
	type served struct {
		serve  func(request) error
		values bool
		names  []string
	}
	all := map[string]served{
		"/threads":  {v.threads, true, []string{"from"}},
		"/thread":   {v.thread, true, []string{"id"}},
		"/calls":    {v.calls, true, []string{"state", "thread", "from"}},
		"/call":     {v.call, true, []string{"thread", "id"}},
		"/prompts":  {v.prompts, true, []string{"answered"}},
		"/events":   {v.events, true, []string{"thread", "from"}},
		"/messages": {v.messages, true, []string{"id", "from"}},
		"/status":   {v.status, false, nil},
		"/":         {v.overview, false, nil},
	}
	s, ok := all[path]
	onlyJSON, onlyPage := path == "/status" || path == "/messages", path == "/" || path == "/events"
	switch {
	case !ok, isJSON && onlyPage, !isJSON && onlyJSON:
		page.Refuse(w, http.StatusNotFound, "there is no such page")
	case !page.Known(w, r, s.names...):
	case s.values && !page.Values():
		page.Refuse(w, http.StatusForbidden, "what users, models and tools have written is not shown here: see inspect.Options.Values")
	default:
		q.answer(s.serve(q))
	}
}

// answer refuses a request that was not served.
func (q request) answer(err error) {
	var p problem
	switch {
	case err == nil:
	case errors.As(err, &p):
		q.page.Refuse(q.w, p.status, p.why)
	case errors.Is(err, ErrBadPlace):
		q.page.Refuse(q.w, http.StatusBadRequest, `"from" is what a page before has given as its next`)
	case errors.Is(err, host.ErrNoModel):
		q.page.Refuse(q.w, http.StatusNotFound, err.Error())
	default: // the flow has ended, or a step is in progress
		q.w.Header().Set("Retry-After", "1")
		q.page.Refuse(q.w, http.StatusServiceUnavailable, err.Error())
	}
}

// show answers with JSON, or with a page made from a template.
func (q request) show(title, of string, shown any) error {
	if q.json {
		q.page.JSON(q.w, http.StatusOK, shown)
		return nil
	}
	q.page.Write(q.w, http.StatusOK, title, pages.Lookup(of), shown)
	return nil
}

// keyOf reads a call from the parameters thread and id.
func (q request) keyOf() agentproto.CallKey {
	values := q.r.URL.Query()
	return agentproto.CallKey{GroupID: values.Get("thread"), ID: values.Get("id")}
}
