package conform

import (
	"context"
	"strings"
	"testing"
	"time"
)

// RunRuntime runs the cases of side R against a runtime that a command starts: once or more for
// each case, with its own configuration. The runtime must have the control interface, see
// [Control]. The error is about the options, or the cause of ctx; problems of a case are in the
// report.
func RunRuntime(ctx context.Context, command RuntimeCommand, opts Options) (*Report, error) {
	if len(command.Args) == 0 {
		return nil, &UsageError{"there is no command that starts the runtime"}
	}
	return opts.perform(ctx, Runtime, strings.Join(command.Args, " "), command.trials())
}

// TestRuntime runs each case as a subtest named by its id. It skips cases that are not applicable,
// and fails those that fail. Use -run to select cases.
func TestRuntime(t *testing.T, command RuntimeCommand) {
	t.Helper()
	subtests(t, Runtime, command.trials())
}

// trials returns the trial of each case.
func (c RuntimeCommand) trials() map[string]trial {
	trials := make(map[string]trial, len(runtimeCases))
	for id, x := range runtimeCases {
		trials[id] = trial{run: onRuntime(c, x.body), limit: x.limit, alone: x.alone}
	}
	return trials
}

// A runtimeCase is the implementation of a case of side R.
type runtimeCase struct {
	body  func(*runtimeTrial)
	limit time.Duration // zero means defaultTimeout
	alone bool          // needs the whole machine, since it is about time or load
}

func plainCase(body func(*runtimeTrial)) runtimeCase { return runtimeCase{body: body} }

func loadCase(body func(*runtimeTrial)) runtimeCase {
	return runtimeCase{body: body, limit: 2 * time.Minute, alone: true}
}

// runtimeCases are the cases of side R by id (doc/protocol.md §14).
var runtimeCases = map[string]runtimeCase{
	"D04": plainCase(caseD04),
	"D05": plainCase(caseD05),
	"D06": plainCase(caseD06),
	"D07": plainCase(caseD07),
	"D08": plainCase(caseD08),
	"D09": plainCase(caseD09),
	"D10": plainCase(caseD10),
	"D11": plainCase(caseD11),
	"D12": plainCase(caseD12),
	"D13": plainCase(caseD13),
	"D14": plainCase(caseD14),
	"I01": plainCase(caseI01),
	"I02": plainCase(caseI02),
	"I03": plainCase(caseI03),
	"I04": plainCase(caseI04),
	"I05": plainCase(caseI05),
	"I06": plainCase(caseI06),
	"I07": plainCase(caseI07),
	"I08": plainCase(caseI08),
	"I09": plainCase(caseI09),
	"I10": plainCase(caseI10),
	"I11": plainCase(caseI11),
	"I12": plainCase(caseI12),
	"I13": plainCase(caseI13),
	"I14": plainCase(caseI14),
	"I15": plainCase(caseI15),
	"R01": plainCase(caseR01),
	"R02": plainCase(caseR02),
	"R03": plainCase(caseR03),
	"R04": plainCase(caseR04),
	"R05": plainCase(caseR05),
	"R06": plainCase(caseR06),
	"R07": plainCase(caseR07),
	"R08": plainCase(caseR08),
	"R09": plainCase(caseR09),
	"R10": plainCase(caseR10),
	"R11": plainCase(caseR11),
	"R12": plainCase(caseR12),
	"R13": plainCase(caseR13),
	"R14": plainCase(caseR14),
	"R15": plainCase(caseR15),
	"O01": plainCase(caseO01),
	"O02": plainCase(caseO02),
	"O03": plainCase(caseO03),
	"O04": plainCase(caseO04),
	"O05": plainCase(caseO05),
	"O06": plainCase(caseO06),
	"O07": plainCase(caseO07),
	"U01": plainCase(caseU01),
	"U02": plainCase(caseU02),
	"U03": plainCase(caseU03),
	"U04": plainCase(caseU04),
	"U05": plainCase(caseU05),
	"U06": plainCase(caseU06),
	"U07": plainCase(caseU07),
	"U08": plainCase(caseU08),
	"S01": plainCase(caseS01),
	"S02": plainCase(caseS02),
	"S03": plainCase(caseS03),
	"S04": plainCase(caseS04),
	"S05": plainCase(caseS05),
	"S06": plainCase(caseS06),
	"S07": plainCase(caseS07),
	"S08": plainCase(caseS08),
	"S09": plainCase(caseS09),
	"S10": plainCase(caseS10),
	"S11": loadCase(caseS11),
	"S12": plainCase(caseS12),
	"S17": loadCase(caseS17),
	"V01": plainCase(caseV01),
	"V02": plainCase(caseV02),
	"V03": plainCase(caseV03),
	"V04": plainCase(caseV04),
	"K01": plainCase(caseK01),
	"K02": plainCase(caseK02),
	"K03": plainCase(caseK03),
	"X01": plainCase(caseX01),
	"X02": plainCase(caseX02),
	"X03": plainCase(caseX03),
	"G01": plainCase(caseG01),
	"G02": plainCase(caseG02),
	"G03": plainCase(caseG03),
	"G04": plainCase(caseG04),
	"G05": plainCase(caseG05),
	"G06": plainCase(caseG06),
	"W01": plainCase(caseW01),
	"W02": plainCase(caseW02),
	"W03": plainCase(caseW03),
	"W04": plainCase(caseW04),
	"W05": plainCase(caseW05),
	"W06": plainCase(caseW06),
	"W07": plainCase(caseW07),
	"W08": plainCase(caseW08),
	"W09": loadCase(caseW09),
	"W10": plainCase(caseW10),
	"W11": plainCase(caseW11),
	"Z01": plainCase(caseZ01),
	"Z02": plainCase(caseZ02),
	"Z03": plainCase(caseZ03),
	"Z04": plainCase(caseZ04),
	"T01": plainCase(caseT01),
	"T02": loadCase(caseT02),
	"T03": plainCase(caseT03),
	"T04": plainCase(caseT04),
	"L01": plainCase(caseL01),
	"L02": loadCase(caseL02),
	"E01": plainCase(caseE01),
}
