package inspect

import (
	"bytes"
	"html/template"
	"net/http"
	"strings"
)

// A Section is further pages of a [Handler], of what the flow is part of: they have the same frame, and are guarded in the same
// way. Package agentinspect has one.
type Section struct {
	// Title is what the navigation of all pages calls it.
	Title string

	// Path begins the paths of its pages, below the handler, as in "agents/". It is one word with a slash.
	Path string

	// Style is added to the style sheet of all pages, and Script is at the end of each page of the section. A browser runs no
	// other script.
	Style, Script string

	// Serve answers a request below Path, which is cut off from the path. It calls page.Write for a page, and whatever it
	// likes for anything else. A request of another method than GET and HEAD comes from the pages of this handler, or from a
	// program; a section serves those only if everybody who may look may also do what they do.
	Serve func(w http.ResponseWriter, r *http.Request, page *Page)
}

// A Page writes a page of a [Section] for one request.
type Page struct {
	frame Frame
}

// Write answers with a page: what t makes of data, in the frame. The title is text. T may use [Funcs].
func (p *Page) Write(w http.ResponseWriter, status int, title string, t *template.Template, data any) {
	v := p.frame.view
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		v.options.Logger.Error("inspect: a page of a section cannot be made", "section", p.frame.Tab, "error", err)
		refuse(w, http.StatusInternalServerError, "the page cannot be made")
		return
	}
	f := p.frame
	f.Title, f.Body = title, template.HTML(b.String()) // which a template has escaped
	v.write(w, status, "section", f)
}

// JSON answers with a value in JSON.
func (p *Page) JSON(w http.ResponseWriter, status int, x any) { answerJSON(w, status, x) }

// Refuse answers that a request is not served, and why.
func (p *Page) Refuse(w http.ResponseWriter, status int, why string) { refuse(w, status, why) }

// Known reports whether all parameters of a request are among names, each of them once at most, and answers 400 if
// not: a wrong name must not be an answer to another question.
func (p *Page) Known(w http.ResponseWriter, r *http.Request, names ...string) bool {
	return known(w, r, names...)
}

// Values reports whether the page may show keys and values: [Options].Values.
func (p *Page) Values() bool { return p.frame.view.options.Values }

// serve serves the section.
func (s Section) serve(v *view) http.Handler {
	own := http.NewCrossOriginProtection()
	return own.Handler(http.StripPrefix("/"+strings.TrimSuffix(s.Path, "/"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := v.frame(s.Path, s.Script)
		f.Base = strings.Repeat("../", strings.Count(r.URL.EscapedPath(), "/"))
		s.Serve(w, r, &Page{f})
	})))
}

// valid reports whether the section can be mounted.
func (s Section) valid() bool {
	word, ok := strings.CutSuffix(s.Path, "/")
	return ok && s.Title != "" && s.Serve != nil && word != "" && word != "v1" && !strings.ContainsFunc(word, func(r rune) bool {
		return (r < 'a' || r > 'z') && r != '-'
	})
}
