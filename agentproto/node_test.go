package agentproto

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// parseScript reads lines of base64. It answers each with the result of JSON.parse as JSON, or
// with an empty line if JSON.parse or the decoding of UTF-8 throws.
const parseScript = `
const lines = require('fs').readFileSync(0, 'latin1').split('\n')
const utf8 = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true})
const out = []
for (const line of lines.slice(0, -1)) {
	try { out.push(JSON.stringify(JSON.parse(utf8.decode(Buffer.from(line, 'base64'))))) } catch (e) { out.push('') }
}
process.stdout.write(out.join('\n') + '\n')
`

// stricter lists the reasons for refusing a message that JSON.parse accepts. Any other difference
// is a bug on one side.
var stricter = []string{
	"is there twice", // JSON.parse uses the last one, other peers the first
	"surrogate", "is not a JSON object", "nests deeper than", "is a number", "has more than", "is larger than", "string of more than",
}

var jsonEdges = []string{
	`{}`, ` {} `, `{"a":1}`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{'a':1}`, `{"a":01}`, `{"a":-01}`, `{"a":+1}`, `{"a":.5}`, `{"a":5.}`, `{"a":-}`, `{"a":-0}`,
	`{"a":1e5}`, `{"a":1E+5}`, `{"a":1e}`, `{"a":1e+}`, `{"a":0x1}`, `{"a":1_0}`, `{"a":NaN}`, `{"a":Infinity}`, `{"a":-Infinity}`, `{"a":undefined}`, `{"a":True}`, `{"a":nul}`,
	`{"a":"\x41"}`, `{"a":"\u004"}`, `{"a":"\u00e9"}`, `{"a":"\uD83D\uDE00"}`, `{"a":"\ud800"}`, `{"a":"\ude00\ud83d"}`, `{"a":"\q"}`, `{"a":"\/"}`, `{"a":"\'"}`, `{"\ud800":1}`,
	"{\"a\":\"\t\"}", "{\"a\":\"\n\"}", "{\"a\":\"\x00\"}", "{\"a\":\"\x7f\"}", "{\"a\":\"\u2028\"}", "{\"a\":\"\xff\"}", "{\"a\":\"\xc0\x80\"}", "{\"a\":\"\xed\xa0\x80\"}", "{\"a\":\"\xf4\x90\x80\x80\"}",
	"\ufeff{}", "{}\ufeff", "\u00a0{}", "\u2028{}", "\v{}", "\f{}", "\r\n\t {}", "{}\x00", "{}{}", "{}//", "/**/{}", "{\"a\":1}\n", "{}]", "[{}]", `null`, `1`, `"a"`, ``, ` `, `{`, `}`,
	`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"":1}`, `{"__proto__":1}`, `{"a":{"b":{"a":1}},"b":[{"a":1},{"a":2}]}`, `{"a":1e400}`, `{"a":1e-400}`, `{"a":9007199254740993}`,
	`{"a":` + strings.Repeat("9", 128) + `}`, `{"a":` + strings.Repeat("9", 129) + `}`, `{"a":[1,]}`, `{"a":[,1]}`, `{"a":[1 2]}`, `{"a" 1}`, `{"a":1 "b":2}`, `{"a":"b}`, `{"a":tru`, `{"a":[}`,
}

var record = flag.Bool("node.record", false, "ask the node in PATH and write testdata/node.txt anew")

// recordedInputs is the number of random inputs for testdata/node.txt.
const recordedInputs = 1500

// TestRecordedNode compares the scanner with recorded answers of Node's JSON.parse (threat 8):
// a peer written in JavaScript must not see another message than the one that was checked.
// The test does not need Node.
func TestRecordedNode(t *testing.T) {
	const file = "testdata/node.txt"
	if *record {
		var inputs [][]byte
		for _, data := range generated(t, rand.New(rand.NewPCG(8, 8)), recordedInputs) {
			if len(data) <= 300 {
				inputs = append(inputs, data)
			}
		}
		var text bytes.Buffer
		for i, answer := range askNode(t, inputs) {
			fmt.Fprintf(&text, "%q %q\n", inputs[i], answer)
		}
		if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	inputs, answers := readNode(t, file)
	compareNode(t, inputs, answers)
}

// readNode reads lines with a quoted input and the quoted result of JSON.parse.
func readNode(t *testing.T, file string) (inputs [][]byte, answers []string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		var input, answer string
		if _, err := fmt.Sscanf(line, "%q %q", &input, &answer); err != nil {
			t.Fatalf("%s:%d: %v", file, i+1, err)
		}
		inputs, answers = append(inputs, []byte(input)), append(answers, answer)
	}
	return inputs, answers
}

// TestNode is TestRecordedNode with new inputs each time, if Node is installed.
func TestNode(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("there is no node in PATH to try new inputs with; see doc/testing-edge.md")
	}
	if *seed == 0 {
		*seed = time.Now().UnixNano()
	}
	inputs := generated(t, rand.New(rand.NewPCG(uint64(*seed), 8)), 30_000)
	compareNode(t, inputs, askNode(t, inputs))
	if t.Failed() {
		t.Fatalf("rerun: go test ./agentproto -run '^TestNode$' -seed %d", *seed)
	}
}

// askNode returns the result of JSON.parse for each input, or "" if it throws.
func askNode(t *testing.T, inputs [][]byte) []string {
	var in bytes.Buffer
	for _, data := range inputs {
		in.WriteString(base64.StdEncoding.EncodeToString(data) + "\n")
	}
	cmd := exec.CommandContext(t.Context(), "node", "-e", parseScript)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	answers := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(answers) != len(inputs) {
		t.Fatalf("%d answers to %d inputs", len(answers), len(inputs))
	}
	return answers
}

// compareNode checks that JSON.parse accepts whatever we accept, with the same meaning, and that
// we refuse anything else that it accepts only for one of the stricter reasons.
func compareNode(t *testing.T, inputs [][]byte, answers []string) {
	both, only := 0, 0
	for i, data := range inputs {
		var f failure
		f.scan(data, Limits{}.orDefaults())
		switch accepted := f.err == nil; {
		case accepted && answers[i] == "":
			t.Errorf("accepts %q, and JSON.parse does not", data)
		case accepted:
			both++
			var mine, other any
			if json.Unmarshal(data, &mine) != nil || json.Unmarshal([]byte(answers[i]), &other) != nil || !reflect.DeepEqual(unsigned(mine), unsigned(other)) {
				t.Errorf("%q is %v, and for JSON.parse %s", data, mine, answers[i])
			}
		case answers[i] != "":
			only++
			if !isStricter(f.err.Error()) {
				t.Errorf("refuses %q, which JSON.parse accepts: %v", data, f.err)
			}
		}
	}
	t.Logf("%d inputs: both accept %d, JSON.parse alone %d", len(inputs), both, only)
	if both < len(inputs)/50 || only < len(inputs)/400 {
		t.Errorf("too few for a comparison: both accept %d, JSON.parse alone %d of %d", both, only, len(inputs))
	}
}

func isStricter(reason string) bool {
	for _, s := range stricter {
		if strings.Contains(reason, s) {
			return true
		}
	}
	return false
}

// unsigned removes the sign of zeros, which JSON.stringify does not write.
func unsigned(v any) any {
	switch v := v.(type) {
	case float64:
		return v + 0
	case []any:
		for i := range v {
			v[i] = unsigned(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = unsigned(v[k])
		}
	}
	return v
}

// generated returns messages and edge cases of JSON, and n more that are made from these by random
// changes.
func generated(t *testing.T, r *rand.Rand, n int) (inputs [][]byte) {
	for _, s := range jsonEdges {
		inputs = append(inputs, []byte(s))
	}
	for _, depth := range []int{63, 64, 65, 1000} {
		inputs = append(inputs, []byte(`{"x":`+nested(depth-1)+`}`))
	}
	files, err := filepath.Glob("testdata/golden/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("golden files: %v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, data)
	}
	pieces := []string{`"`, `\`, `\u`, `\ud83d`, `{`, `}`, `[`, `]`, `:`, `,`, ` `, "\n", `0`, `-`, `1e9`, `.`, `null`, `true`, `"a":1,`, `"id":"x",`, "\x00", "\xff", "\xc3", "é", "\ufeff", `e+`, `{}`, `[]`, `""`}
	for seeds := len(inputs); n > 0; n-- {
		data := bytes.Clone(inputs[r.IntN(seeds)])
		for range 1 + r.IntN(4) {
			at := r.IntN(len(data) + 1)
			switch r.IntN(4) {
			case 0: // insert a piece
				data = append(data[:at:at], append([]byte(pieces[r.IntN(len(pieces))]), data[at:]...)...)
			case 1: // remove a piece
				data = append(data[:at:at], data[min(len(data), at+1+r.IntN(3)):]...)
			case 2: // flip a bit
				if at < len(data) {
					data[at] ^= 1 << r.IntN(8)
				}
			case 3: // repeat something
				end := min(len(data), at+r.IntN(20))
				data = append(data[:end:end], data[at:]...)
			}
		}
		inputs = append(inputs, data)
	}
	return inputs
}
