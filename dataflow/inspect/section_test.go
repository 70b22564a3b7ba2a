package inspect_test

import (
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow/inspect"
)

var guests = template.Must(template.New("guests").Funcs(inspect.Funcs()).Parse(`<p>{{plain .}}</p>`))

// guestbook is a section that shows the guest named by the path and accepts entries.
func guestbook(took *[]string) inspect.Section {
	return inspect.Section{
		Title: "Guests", Path: "guests/", Style: ".guest{color:red}", Script: "document.title+='!'",
		Serve: func(w http.ResponseWriter, r *http.Request, page *inspect.Page) {
			switch {
			case r.Method == http.MethodPost:
				*took = append(*took, r.URL.Path)
				page.JSON(w, http.StatusAccepted, "taken")
			case r.URL.Path == "/none":
				page.Refuse(w, http.StatusNotFound, "there is no such guest")
			case page.Known(w, r, "of"):
				page.Write(w, http.StatusOK, "guest "+r.URL.Path, guests, fmt.Sprint(strings.TrimPrefix(r.URL.Path, "/"), r.URL.Query()["of"], page.Values()))
			}
		},
	}
}

// TestSection checks that pages of a section have the common frame, and that their links lead to the other pages.
func TestSection(t *testing.T) {
	app, _ := counting(t)
	var took []string
	h := inspect.Handler(app, inspect.Options{Token: "right", Values: true, Sections: []inspect.Section{guestbook(&took)}})
	h = http.StripPrefix("/a/b", h)
	right := []string{"Authorization", "Bearer right"}
	for path, base := range map[string]string{"/a/b/guests/": "../", "/a/b/guests/ada": "../", "/a/b/guests/ada/bob": "../../"} {
		resp, page := ask(t, h, "GET", path+"?of=x", right...)
		if resp.StatusCode != 200 || strings.Count(page, "<script>") != 1 || !strings.Contains(page, `<script>document.title+='!'</script>`) ||
			!strings.Contains(page, ".guest{color:red}") || !strings.Contains(page, `<a href="`+base+`guests/" aria-current="page">Guests</a>`) ||
			!strings.Contains(page, `<a href="`+base+`keys">Keys</a>`) || !strings.Contains(page, `<a href="`+base+`./">Flow</a>`) {
			t.Errorf("%s: %v: %s", path, resp.Status, page[max(0, strings.Index(page, "<header")):])
		}
	}
	resp, page := ask(t, h, "GET", "/a/b/", right...)
	if !strings.Contains(page, `<a href="guests/">Guests</a>`) || strings.Contains(page, "document.title+=") {
		t.Errorf("the flow's page has no link, or the script of the section: %s", page[strings.Index(page, "<header"):][:500])
	}
	policy := resp.Header.Get("Content-Security-Policy")
	if scripts := regexp.MustCompile(`script-src[^;]*`).FindString(policy); strings.Count(scripts, "sha256-") != 2 {
		t.Errorf("the policy is %s", policy)
	}
	_, hostile := ask(t, h, "GET", "/a/b/guests/%3Cscript%3Ex%E2%80%AEy", right...)
	if strings.Contains(hostile, "<script>x") || strings.Contains(hostile, "\u202e") {
		t.Errorf("a hostile path makes an element, or turns what is behind it: %s", hostile)
	}
	for _, x := range []struct {
		method, path, header string
		want                 int
	}{
		{"GET", "guests/none", "", 404},
		{"GET", "guests/?fo=x", "", 400},
		{"GET", "guest/", "", 404},
		{"GET", "guests/", "Authorization|Bearer wrong", 401},
		{"POST", "guests/1", "Authorization|Bearer wrong", 401},
		{"POST", "guests/2", "Origin|http://evil.example", 403},
		{"POST", "guests/3", "Sec-Fetch-Site|cross-site|Sec-Fetch-Mode|navigate", 403}, // a form of another site
		{"POST", "guests/4", "Sec-Fetch-Site|same-site", 403},
		{"POST", "guests/5", "Sec-Fetch-Site|same-origin|Origin|http://localhost", 202},
		{"POST", "guests/6", "", 202}, // a program
		{"POST", "guests/7", "Host|evil.example", 421},
		{"POST", "v1/status", "", 405},
	} {
		header := right
		if x.header != "" {
			header = append(strings.Split(x.header, "|"), right...)
			if strings.HasPrefix(x.header, "Authorization") {
				header = header[:2]
			}
		}
		if resp, body := ask(t, h, x.method, "/a/b/"+x.path, header...); resp.StatusCode != x.want {
			t.Errorf("%s %s %s: %d, want %d: %.200s", x.method, x.path, x.header, resp.StatusCode, x.want, body)
		}
	}
	if fmt.Sprint(took) != "[/5 /6]" {
		t.Errorf("the section took %v", took)
	}
}

// TestSectionMisuse checks that a section without a title, path or function is refused.
func TestSectionMisuse(t *testing.T) {
	app, _ := counting(t)
	var took []string
	for _, change := range []func(*inspect.Section){
		func(s *inspect.Section) { s.Title = "" },
		func(s *inspect.Section) { s.Serve = nil },
		func(s *inspect.Section) { s.Path = "" },
		func(s *inspect.Section) { s.Path = "/" },
		func(s *inspect.Section) { s.Path = "guests" },
		func(s *inspect.Section) { s.Path = "v1/" },
		func(s *inspect.Section) { s.Path = "{x}/" },
		func(s *inspect.Section) { s.Path = "a/b/" },
	} {
		s := guestbook(&took)
		change(&s)
		func() {
			defer func() {
				if p, ok := recover().(string); !ok || !strings.Contains(p, "a Section needs") {
					t.Errorf("%+v is answered by %v", s.Path, p)
				}
			}()
			inspect.Handler(app, inspect.Options{Sections: []inspect.Section{s}})
		}()
	}
}
