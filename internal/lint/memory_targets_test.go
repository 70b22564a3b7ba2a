package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// A target is what a statement writes to: a variable, and the fields on the path from it.
type target struct {
	root    *types.Var
	fields  []*types.Var
	whole   bool // the variable itself
	through bool // what a pointer on the path points to
	at      ast.Node
}

// declared returns what a function declares with Scratch or Holds.
func (m *memoryCheck) declared(body ast.Node) (all []target) {
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Scratch" && sel.Sel.Name != "Holds" {
			return true
		}
		for _, arg := range call.Args {
			if u, ok := arg.(*ast.UnaryExpr); ok && u.Op == token.AND {
				if t, ok := m.target(u.X); ok {
					all = append(all, t)
				}
			}
		}
		return true
	})
	return all
}

// targets returns everything that a function writes to.
func (m *memoryCheck) targets(body ast.Node) (all []target) {
	add := func(x ast.Expr) {
		if t, ok := m.target(x); ok {
			all = append(all, t)
		}
	}
	declares := make(map[ast.Expr]bool)
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, lhs := range n.Lhs {
				if id, ok := lhs.(*ast.Ident); !ok || m.info.Defs[id] == nil {
					add(lhs)
				}
			}
		case *ast.IncDecStmt:
			add(n.X)
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				add(n.Key)
				if n.Value != nil {
					add(n.Value)
				}
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND && !declares[n] && !m.placed(n.X) {
				add(n.X)
			}
		case *ast.CallExpr:
			switch f := n.Fun.(type) {
			case *ast.Ident:
				if _, builtin := m.info.Uses[f].(*types.Builtin); builtin && slices.Contains([]string{"append", "clear", "copy", "delete"}, f.Name) {
					add(n.Args[0])
				}
			case *ast.SelectorExpr:
				if f.Sel.Name == "Scratch" || f.Sel.Name == "Holds" {
					for _, arg := range n.Args {
						declares[arg] = true
					}
				}
				if s := m.info.Selections[f]; s != nil && s.Kind() == types.MethodVal {
					recv := s.Obj().(*types.Func).Signature().Recv().Type()
					_, pointer := recv.(*types.Pointer)
					_, already := m.info.Types[f.X].Type.(*types.Pointer)
					if pointer && !already && !m.placed(f.X) {
						add(f.X)
					}
				}
			}
		}
		return true
	})
	return all
}

// placed reports whether an expression is a Head or Region, which only says where an operator is.
func (m *memoryCheck) placed(x ast.Expr) bool {
	tn := named(m.info.Types[x].Type)
	return tn != nil && m.machinery(tn.Pkg()) && (tn.Name() == "Head" || tn.Name() == "Region")
}

// target returns the variable at the root of an expression, and the fields on the path.
func (m *memoryCheck) target(x ast.Expr) (t target, ok bool) {
	t.at, t.whole = x, true
	for {
		switch y := x.(type) {
		case *ast.ParenExpr:
			x = y.X
			continue
		case *ast.IndexExpr:
			x = y.X
		case *ast.SliceExpr:
			x = y.X
		case *ast.StarExpr:
			x, t.through = y.X, true
		case *ast.SelectorExpr:
			s := m.info.Selections[y]
			if s == nil || s.Kind() != types.FieldVal {
				return t, false
			}
			t.fields = slices.Concat(fieldsOf(s), t.fields)
			if _, pointer := m.info.Types[y.X].Type.Underlying().(*types.Pointer); pointer {
				t.through = true
			}
			x = y.X
		case *ast.Ident:
			v := m.variable(y)
			if v == nil || y.Name == "_" {
				return t, false
			}
			t.root = v
			return t, true
		default:
			return t, false
		}
		t.whole = false
	}
}

// fieldsOf returns the fields that a selector passes through, in their generic form.
func fieldsOf(s *types.Selection) (all []*types.Var) {
	at := s.Recv()
	for _, i := range s.Index() {
		if p, ok := at.Underlying().(*types.Pointer); ok {
			at = p.Elem()
		}
		f := at.Underlying().(*types.Struct).Field(i)
		all = append(all, f.Origin())
		at = f.Type()
	}
	return all
}
