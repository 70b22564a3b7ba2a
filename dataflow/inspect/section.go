package inspect

import (
	"bytes"
	"html/template"
	"net/http"
	"strings"
)

// A Section is a group of additional pages of a [Handler], about the program to which the flow belongs. They have the same
// frame and the same access control. Package agentinspect has one.
type Section struct {
	// Title is the name of the section in the navigation of all pages.
	Title string

	// Path is the beginning of the paths of its pages, below the handler, such as "agents/". It is one word with a slash.
	Path string

	// Style is added to the style sheet of all pages. Script is added at the end of each page of the section. A browser runs no
	// other script.
	Style, Script string

	// Serve answers a request below Path, which is removed from the request's path. It calls page.Write for a page, and may
	// answer in any way for anything else. Requests with methods other than GET and HEAD come from the pages of this handler,
	// or from a program. A section may serve them only if everybody who may look may also do what they do.
	Serve func(w http.ResponseWriter, r *http.Request, page *Page)
}

// A Page writes a page of a [Section] for one request.
type Page struct {
	frame frame
}

// Write answers with a page: the result of t with data, in the frame. The title is plain text. T may use [Funcs].
func (p *Page) Write(w http.ResponseWriter, status int, title string, t *template.Template, data any) {
	v := p.frame.view
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		v.options.Logger.Error("inspect: a page of a section cannot be made", "section", p.frame.Tab, "error", err)
		refuse(w, http.StatusInternalServerError, "the page cannot be made")
		return
	}
	f := p.frame
	f.Title, f.Body = title, template.HTML(b.String()) // the template has escaped it
	v.write(w, status, "section", f)
}

// JSON answers with a value in JSON.
func (p *Page) JSON(w http.ResponseWriter, status int, x any) { answerJSON(w, status, x) }

// Refuse answers that a request is refused, and why.
func (p *Page) Refuse(w http.ResponseWriter, status int, why string) { refuse(w, status, why) }

// Known reports whether all parameters of a request are among names, each at most once. Otherwise it answers 400, because a
// misspelled parameter must not silently get the answer to another question.
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
