package picture

import (
	"fmt"
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// SVG returns the picture as an SVG element. It has classes and no colours: whoever shows it has a
// style sheet, or uses [Picture.Document].
func (p *Picture) SVG() string {
	var b strings.Builder
	p.draw(&b, "")
	return b.String()
}

// Document returns the picture as a file of its own, with a style sheet, for light and for dark
// surroundings.
func (p *Picture) Document() string {
	var b strings.Builder
	p.draw(&b, style)
	return b.String()
}

// style is the style sheet of a document. The page of package inspect has these rules, too.
const style = `<style>
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#5c6670;--line:#848e98;--shade:#eef1f4;--op:#f3f5f7;--port:#dcecff;--why:#ffe9c7;--proof:#e9e2fb;--state:#d9f2e3;--bad:#b3261e;--badbg:#fde3e1}
@media(prefers-color-scheme:dark){:root{--bg:#14171a;--fg:#e6e9ec;--dim:#9aa4ae;--line:#66717c;--shade:#1d2226;--op:#22272c;--port:#12324f;--why:#4a3510;--proof:#33285a;--state:#133d28;--bad:#ff8a80;--badbg:#4c1613}}
svg{background:var(--bg)}` + rules + `</style>`

const rules = `
svg rect{fill:var(--op);stroke:var(--line)}svg text{fill:var(--fg);font:12px system-ui,sans-serif}svg .sub{fill:var(--dim);font-size:10px}
svg .port rect{fill:var(--port)}svg .why rect{fill:var(--why)}svg .proof rect{fill:var(--proof)}svg .state rect{fill:var(--state)}
svg .many rect{stroke-dasharray:5 3}svg .bad rect{fill:var(--badbg);stroke:var(--bad);stroke-width:3}svg .shade{fill:var(--shade);stroke:none}
svg path{fill:none;stroke:var(--line);stroke-width:1.3}svg .back{stroke-dasharray:4 3}svg .arrow{fill:var(--line);stroke:none}svg a:focus rect{stroke-width:3}
`

func (p *Picture) draw(b *strings.Builder, style string) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f">%s`+"\n", p.W, p.H, p.W, p.H, style)
	for _, s := range p.Shades {
		fmt.Fprintf(b, `<rect class="shade" x="%.0f" y="%.0f" width="%.0f" height="%.0f"/>`+"\n", s.X, s.Y, s.W, s.H)
	}
	for _, c := range p.Columns {
		if c.Title != "" {
			fmt.Fprintf(b, `<text class="column" x="%.0f" y="%d">%s</text>`+"\n", c.X, margin+8, text(c.Title, longestTitle))
		}
	}
	for _, l := range p.Lines {
		class := ""
		if l.Back {
			class = ` class="back"`
		}
		end := l.Points[len(l.Points)-1]
		fmt.Fprintf(b, `<path%s d="%s"/><path class="arrow" d="M%.0f %.0fl-3 -6h6z"/>`+"\n", class, way(l.Points), end[0], end[1])
	}
	for i := range p.Boxes {
		p.Boxes[i].draw(b)
	}
	b.WriteString("</svg>\n")
}

// way returns the form of a line: curves between layers, which leave and arrive upright, and
// straight on beside what is in a layer.
func way(points [][2]float64) string {
	var b strings.Builder
	for i, q := range points {
		switch {
		case i == 0:
			fmt.Fprintf(&b, "M%.0f %.0f", q[0], q[1])
		case i%2 == 1:
			half := (points[i-1][1] + q[1]) / 2
			fmt.Fprintf(&b, "C%.0f %.0f %.0f %.0f %.0f %.0f", points[i-1][0], half, q[0], half, q[0], q[1])
		default:
			fmt.Fprintf(&b, "V%.0f", q[1])
		}
	}
	return b.String()
}

func (x *Box) draw(b *strings.Builder) {
	if x.Link != "" {
		fmt.Fprintf(b, `<a href="%s">`, text(x.Link, 200))
	}
	b.WriteString("<g")
	for _, a := range [...][2]string{{"id", x.ID}, {"class", x.Class}, {"data-of", x.Data}} {
		if a[1] != "" {
			fmt.Fprintf(b, ` %s="%s"`, a[0], text(a[1], 4000))
		}
	}
	fmt.Fprintf(b, ` transform="translate(%.0f %.0f)">`, x.X-x.W/2, x.Y-boxHeight/2)
	if x.Title != "" {
		fmt.Fprintf(b, "<title>%s</title>", text(x.Title, 400))
	}
	round := 6
	if strings.Contains(" "+x.Class+" ", " port ") {
		round = boxHeight / 2
	}
	inset, letters := 10, x.W-20
	fmt.Fprintf(b, `<rect width="%.0f" height="%d" rx="%d"/><text x="%d" y="16">%s</text>`, x.W, boxHeight, round, inset, text(x.Label, int(letters/6.4)))
	fmt.Fprintf(b, `<text x="%d" y="30" class="sub">%s</text></g>`, inset, text(x.Sub, int(letters/5.4)))
	if x.Link != "" {
		b.WriteString("</a>")
	}
	b.WriteString("\n")
}

// text returns a text of n characters at most as SVG shows it. What is not printed, such as a
// mark that turns the direction of what follows, is shown by its code.
func text(s string, n int) string {
	var b strings.Builder
	for shown := 0; len(s) > 0; shown++ {
		r, size := utf8.DecodeRuneInString(s)
		if shown >= n-1 && size < len(s) {
			b.WriteRune('…')
			break
		}
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "\\x%02x", s[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
		s = s[size:]
	}
	return html.EscapeString(b.String())
}
