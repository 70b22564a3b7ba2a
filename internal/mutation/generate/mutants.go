package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A mutant is one change to one function. Its name does not change when other functions are edited,
// so samples and lists of mutants stay comparable.
type mutant struct {
	file, fn, operator string // relative to the root of the module; "Type.Method"; such as "negate"
	ordinal            int    // among those of the same operator in the function
	line               int
	from, to           int // the replaced bytes
	text               string
	change             string // digest of the lines with the replaced text, and of the replacement
}

// name returns the name of a mutant.
func (m mutant) name() string {
	return fmt.Sprintf("%s %s %s %d", m.file, m.fn, m.operator, m.ordinal)
}

// listed returns the name of a mutant in equivalent.txt. It includes the change, since the ordinals
// shift when a function is edited.
func (m mutant) listed() string { return m.name() + " " + m.change }

// dir returns the folder of its package, relative to the root of the module.
func (m mutant) dir() string { return m.file[:strings.LastIndexByte(m.file, '/')] }

// hash is the same in every process. Similar names have very different hashes, so a sample covers
// many functions.
func (m mutant) hash() uint64 {
	sum := sha256.Sum256([]byte(m.name()))
	return binary.BigEndian.Uint64(sum[:])
}

// apply returns the source with the change.
func (m mutant) apply(src []byte) []byte {
	return slices.Concat(src[:m.from], []byte(m.text), src[m.to:])
}

// sample returns n of the mutants, the same ones each time, or all if n is 0.
func sample(all []mutant, n int) []mutant {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b mutant) int {
		if x, y := a.hash(), b.hash(); x < y {
			return -1
		} else if x > y {
			return 1
		}
		return strings.Compare(a.name(), b.name())
	})
	if n > 0 && n < len(all) {
		all = all[:n]
	}
	return all
}

// mutants returns all mutants of the non-test files of a package that are built here.
func mutants(root string, p folder) (all []mutant, err error) {
	for _, f := range p.files {
		src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p.dir), f))
		if err != nil {
			return nil, err
		}
		of, err := inFile(p.dir+"/"+f, src)
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, nil
}

// texts matches functions that only produce text: an error in them breaks nothing else.
var texts = regexp.MustCompile(`^(String|GoString|Error|Format|[dD]escribe.*|[lL]og.*|[sS]ay.*|[pP]rint.*)$`)

// inFile returns the mutants of a file.
func inFile(file string, src []byte) ([]mutant, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, src, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(tree) {
		return nil, nil
	}
	w := &walker{file: file, fset: fset, src: src}
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || texts.MatchString(f.Name.Name) {
			continue
		}
		w.fn, w.count = f.Name.Name, make(map[string]int)
		if f.Recv != nil && len(f.Recv.List) == 1 {
			w.fn = receiver(f.Recv.List[0].Type) + "." + w.fn
		}
		if f.Type.Results == nil && len(f.Body.List) > 1 {
			last := f.Body.List[len(f.Body.List)-1]
			w.insert("return", last, "return; ")
		}
		ast.Inspect(f.Body, w.visit)
	}
	return w.all, nil
}

// changeOf returns a digest of a change: of its lines without indentation, of its place in them, and
// of the replacement.
func changeOf(src []byte, from, to int, text string) string {
	begin, end := bytes.LastIndexByte(src[:from], '\n')+1, len(src)
	if i := bytes.IndexByte(src[to:], '\n'); i >= 0 {
		end = to + i
	}
	var lines []byte
	for line := range bytes.Lines(src[begin:end]) {
		lines = append(append(lines, bytes.TrimSpace(line)...), '\n')
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s%d %s", lines, len(bytes.TrimLeft(src[begin:from], "\t ")), text))
	return hex.EncodeToString(sum[:3])
}

// receiver returns the name of a receiver's type.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}

// A walker collects the mutants of one function after the other.
type walker struct {
	file  string
	fset  *token.FileSet
	src   []byte
	fn    string
	count map[string]int
	all   []mutant
}

// offset returns the offset of a position in the file.
func (w *walker) offset(p token.Pos) int { return w.fset.Position(p).Offset }

// add adds a mutant that replaces the text between two positions.
func (w *walker) add(operator string, from, to token.Pos, text string) {
	m := mutant{w.file, w.fn, operator, w.count[operator], w.fset.Position(from).Line, w.offset(from), w.offset(to), text, ""}
	m.change = changeOf(w.src, m.from, m.to, text)
	w.all = append(w.all, m)
	w.count[operator]++
}

// insert adds a mutant that inserts a text before a node.
func (w *walker) insert(operator string, n ast.Node, text string) {
	w.add(operator, n.Pos(), n.Pos(), text)
}

// source returns the text of a node.
func (w *walker) source(n ast.Node) string {
	return string(w.src[w.offset(n.Pos()):w.offset(n.End())])
}

// swapped maps operators to the ones that replace them.
var swapped = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.LAND: "||", token.LOR: "&&",
}

// visit adds the mutants of a node, and reports whether to visit its children.
func (w *walker) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		return !speaks(n)
	case *ast.IfStmt:
		w.add("negate", n.Cond.Pos(), n.Cond.End(), "!("+w.source(n.Cond)+")")
	case *ast.BinaryExpr:
		if text, ok := swapped[n.Op]; ok {
			operator := "compare"
			if n.Op == token.LAND || n.Op == token.LOR {
				operator = "logic"
			}
			w.add(operator, n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), text)
		}
	case *ast.BasicLit:
		if n.Kind == token.INT {
			w.add("constant", n.Pos(), n.End(), "("+n.Value+" + 1)")
			w.add("constant", n.Pos(), n.End(), "("+n.Value+" - 1)")
		}
	case *ast.BlockStmt:
		w.list(n.List)
	case *ast.CaseClause:
		if n.List != nil {
			w.add("case", n.Pos(), n.End(), "")
		}
		w.list(n.Body)
	}
	return true
}

// list adds the mutants of a list of statements.
func (w *walker) list(all []ast.Stmt) {
	for i, s := range all {
		if droppable(s) {
			w.add("drop", s.Pos(), s.End(), "")
		}
		if i > 0 && movable(s) && movable(all[i-1]) {
			if before := all[i-1]; apart(before, s) {
				w.count["swap"]++ // so that the others keep their numbers
			} else {
				w.add("swap", before.Pos(), s.End(), w.source(s)+"; "+w.source(before))
			}
		}
	}
}

// droppable reports whether a statement is an assignment to an existing variable, or a call for its
// effect.
func droppable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && !speaks(call)
	case *ast.IncDecStmt:
		return true
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE {
			return false
		}
		if call, ok := s.Rhs[0].(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "append" {
				return true
			}
		}
		for _, x := range s.Lhs {
			switch x.(type) {
			case *ast.SelectorExpr, *ast.StarExpr, *ast.IndexExpr:
			default:
				return false
			}
		}
		return true
	}
	return false
}

// movable reports whether a statement can be swapped with the next one.
func movable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		return droppable(s)
	case *ast.IncDecStmt:
		return true
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE
	}
	return false
}

// registers matches methods that record something about an operator or a location that is being
// built. Their order does not matter.
var registers = regexp.MustCompile(`^(Clocked|Timed|Compiled|Owns|Follows|Takes|[eE]nters|[pP]asses|[mM]akePassive)$`)

// notes reports whether a statement is a call of such a method.
func notes(s ast.Stmt) bool {
	x, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	c, ok := x.X.(*ast.CallExpr)
	return ok && registers.MatchString(lastName(c.Fun))
}

// apart reports whether two statements are independent, so that their order does not matter. That is
// so for assignments without a call if neither mentions what the other one sets, and for a statement
// that notes recognizes together with an assignment or another such statement.
func apart(a, b ast.Stmt) bool {
	if notes(a) || notes(b) {
		_, callA := a.(*ast.ExprStmt)
		_, callB := b.(*ast.ExprStmt)
		return (notes(a) || !callA) && (notes(b) || !callB)
	}
	setA, hasA, plainA := mentions(a)
	setB, hasB, plainB := mentions(b)
	for name := range setA {
		plainA = plainA && !hasB[name]
	}
	for name := range setB {
		plainB = plainB && !hasA[name]
	}
	return plainA && plainB
}

// mentions returns the variables and fields that an assignment sets, and everything that it
// mentions. It reports false if the statement may do more than that.
func mentions(s ast.Stmt) (set, has map[string]bool, plain bool) {
	set, has, plain = make(map[string]bool), make(map[string]bool), true
	var left []ast.Expr
	switch s := s.(type) {
	case *ast.AssignStmt:
		left = s.Lhs
	case *ast.IncDecStmt:
		left = []ast.Expr{s.X}
	default:
		return set, has, false
	}
	for _, x := range left {
		for inside := true; inside; {
			switch y := x.(type) {
			case *ast.IndexExpr:
				x = y.X
			case *ast.ParenExpr:
				x = y.X
			default:
				inside = false
			}
		}
		switch x := x.(type) {
		case *ast.Ident:
			set[x.Name] = true
		case *ast.SelectorExpr:
			set[x.Sel.Name] = true
		default:
			return set, has, false
		}
	}
	ast.Inspect(s, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.Ident:
			has[x.Name] = true
		case *ast.UnaryExpr:
			plain = plain && x.Op != token.ARROW
		case *ast.FuncLit:
			return false // it does not run yet
		case *ast.CallExpr:
			f, ok := x.Fun.(*ast.Ident)
			plain = plain && ok && (f.Name == "len" || f.Name == "cap" || f.Name == "min" || f.Name == "max" || f.Name == "append" || strings.HasPrefix(f.Name, "uint") || strings.HasPrefix(f.Name, "int"))
		}
		return true
	})
	return set, has, plain
}

// These match a call that writes to a log, such as o.Log.Warn.
var (
	logger = regexp.MustCompile(`^([lL]og|[lL]ogger)$`)
	level  = regexp.MustCompile(`^(Debug|Info|Warn|Error|Log)(Context)?$`)
)

// lastName returns the last name in an expression such as o.Log or o.log(), or "".
func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.CallExpr:
		return lastName(x.Fun)
	}
	return ""
}

// declares matches methods of an operator that only tests use.
var declares = regexp.MustCompile(`^(Scratch|Holds)$`)

// speaks reports whether a call only makes or prints a text, or declares something for a test.
func speaks(c *ast.CallExpr) bool {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name == "panic"
	case *ast.SelectorExpr:
		if declares.MatchString(f.Sel.Name) || logger.MatchString(lastName(f.X)) && level.MatchString(f.Sel.Name) {
			return true
		}
		x, ok := f.X.(*ast.Ident)
		return ok && (x.Name == "fmt" || x.Name == "errors" || x.Name == "slog" || x.Name == "log")
	}
	return false
}
