package inspect

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"

	"github.com/millrace/millrace/internal/picture"
)

// A tab is a link in the head of each page.
type tab struct{ Path, Title string }

// Paths of pages, in the order of the tabs.
const (
	flowTab    = "./"
	keysTab    = "keys"
	historyTab = "history"
	membersTab = "members"
)

// A frame is the common part of each page: its head with the navigation, and its script. Templates read its exported fields.
type frame struct {
	Name   string       // of the flow
	Title  string       // of the page
	Tab    string       // path of the tab to which the page belongs
	Base   string       // leads from the page to the handler's root
	Tabs   []tab        // in order
	Style  template.CSS // of all pages
	Script template.JS
	Body   template.HTML // of a section's page

	view *view
}

// tabs returns the tabs of the available pages.
func (v *view) tabs() []tab {
	all := []tab{{flowTab, "Flow"}}
	if v.options.Values {
		all = append(all, tab{keysTab, "Keys"})
	}
	if v.past.app != nil {
		all = append(all, tab{historyTab, "History"}, tab{membersTab, "Members"})
	}
	for _, s := range v.options.Sections {
		all = append(all, tab{s.Path, s.Title})
	}
	return append(all, tab{"v1/graph.svg", "Picture"}, tab{"v1/status", "JSON"})
}

// frame returns the frame of a page at the root.
func (v *view) frame(path, script string) frame {
	f := frame{Name: v.options.Name, Tab: path, Tabs: v.tabs(), Style: template.CSS(v.style), Script: template.JS(script), view: v}
	for _, t := range f.Tabs {
		if t.Path == path && path != flowTab {
			f.Title = strings.ToLower(t.Title)
		}
	}
	return f
}

// style returns the style sheet of all pages, including those of sections.
func (o *Options) style() string {
	all := picture.Style + ownCSS
	for _, s := range o.Sections {
		all += s.Style
	}
	return all
}

// policy returns the content security policy of all pages. It permits their style sheet and scripts, by digest, answers of
// this handler, and nothing else.
func (o *Options) policy(style string) string {
	scripts := digest(pageJS)
	for _, s := range o.Sections {
		if s.Script != "" {
			scripts += " " + digest(s.Script)
		}
	}
	return "default-src 'none'; connect-src 'self'; img-src data:; style-src " + digest(style) + "; script-src " + scripts +
		"; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}

func digest(source string) string {
	d := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(d[:]) + "'"
}

// write answers with a page.
func (v *view) write(w http.ResponseWriter, status int, page string, shown any) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, page, shown); err != nil {
		v.options.Logger.Error("inspect: the page cannot be made", "error", err)
		refuse(w, http.StatusInternalServerError, "the page cannot be made")
		return
	}
	w.Header().Set("Content-Security-Policy", v.policy)
	answer(w, status, "text/html; charset=utf-8", b.Bytes())
}
