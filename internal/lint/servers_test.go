package lint

import (
	"go/ast"
	"strings"
	"testing"
)

// servers is the only package that makes HTTP servers and clients and parses forms.
const servers = "internal/edge"

// ownClients lists folders with HTTP clients of their own, and why.
var ownClients = map[string]string{
	"agentproto/conversation/openai": "the service of a model is reached as the operator reaches others, by the proxy of the environment if there is one",
	"bench/cmd/servers":              "the caller of a benchmark is what a user has",
	"bench/internal/jobs":            "the caller of a benchmark is what a user has",
	"examples/payments":              "an example has what a reader has, who cannot import edge",
}

// TestServers checks that HTTP servers and clients are made only by package edge: its servers have all
// limits, and its clients follow no redirect and no proxy. Exceptions are the clients in ownClients,
// and servers in examples. No request, not even a GET, may be parsed by functions that write multipart
// bodies to files. Tests may use servers and clients of their own.
func TestServers(t *testing.T) {
	made := 0
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		inHTTP := importName(f, "net/http")
		if inHTTP == "." {
			t.Errorf("%s: net/http is imported without a name", f.path)
		}
		for _, c := range f.Comments {
			if strings.Contains(c.Text(), "http.ListenAndServe") {
				t.Errorf("%s: an example with http.ListenAndServe, which has no limits", f.fset.Position(c.Pos()))
			}
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if c, ok := n.(*ast.CompositeLit); ok && f.dir != servers && ownClients[f.dir] == "" {
				if s, ok := c.Type.(*ast.SelectorExpr); ok && (s.Sel.Name == "Client" || s.Sel.Name == "Transport") {
					if x, ok := s.X.(*ast.Ident); ok && inHTTP != "" && x.Name == inHTTP {
						t.Errorf("%s: an http.%s of its own: use edge.NewClient and edge.Outbound", f.fset.Position(n.Pos()), s.Sel.Name)
					}
				}
			}
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			what := ""
			switch s.Sel.Name {
			case "FormValue", "PostFormValue", "FormFile", "ParseForm", "ParseMultipartForm", "MultipartReader":
				what = s.Sel.Name + ": a body is read by edge.ReadForm, a query by URL.Query"
			case "ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS":
				if x, ok := s.X.(*ast.Ident); ok && inHTTP != "" && x.Name == inHTTP {
					what = "http." + s.Sel.Name + " has no limits: use edge.New"
				}
			case "Server":
				if x, ok := s.X.(*ast.Ident); ok && inHTTP != "" && x.Name == inHTTP {
					what = "an http.Server of its own: use edge.New"
				}
			case "Get", "Head", "Post", "PostForm", "DefaultClient", "DefaultTransport":
				if x, ok := s.X.(*ast.Ident); ok && inHTTP != "" && x.Name == inHTTP && ownClients[f.dir] == "" {
					what = "http." + s.Sel.Name + " follows redirects and the environment's proxy: use edge.NewClient"
				}
			}
			if what != "" && f.dir == servers {
				made++
			} else if strings.HasPrefix(f.dir, "examples/") && strings.HasPrefix(what, "an http.Server") {
				return true // an example is limited to what a reader can import, and sets the limits itself
			} else if what != "" {
				t.Errorf("%s: %s", f.fset.Position(n.Pos()), what)
			}
			return true
		})
	}
	if made == 0 {
		t.Errorf("%s makes no server: does this test look at the right names?", servers)
	}
}

// importName returns the name by which a file knows a package, or "".
func importName(f source, path string) string {
	for _, spec := range f.Imports {
		if strings.Trim(spec.Path.Value, `"`) != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path[strings.LastIndexByte(path, '/')+1:]
	}
	return ""
}
