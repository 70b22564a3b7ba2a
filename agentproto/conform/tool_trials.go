package conform

import "time"

// toolTrials are the trials of the cases of tool servers, by id.
var toolTrials = map[string]toolTrial{
	"D01": {run: (*toolCase).manifestIsValid},
	"D02": {run: (*toolCase).brokenManifest},
	"D03": {run: (*toolCase).hostIsNotReflected},

	"A01": {run: (*toolCase).acknowledgesAtOnce, alone: true},
	"A02": {run: (*toolCase).unknownOperation},
	"A03": {run: (*toolCase).badArguments},
	"A04": {run: (*toolCase).badInvocation},
	"A05": {run: (*toolCase).otherMedia},
	"A06": {run: (*toolCase).sameKeyTwice},
	"A07": {run: (*toolCase).sameIDElsewhere},
	"A08": {run: (*toolCase).panics},
	"A09": {run: (*toolCase).killedAfterAck, alone: true, limit: 3 * time.Minute},
	"A10": {run: (*toolCase).queueFull, alone: true, limit: 2 * time.Minute},
	"A11": {run: (*toolCase).unauthenticated},
	"A12": {run: (*toolCase).callID},

	"C01": {run: (*toolCase).callbackFailsOnce},
	"C02": {run: (*toolCase).callbackUnknown},
	"C03": {run: (*toolCase).callbackRefused, alone: true, limit: 3 * time.Minute},
	"C04": {run: (*toolCase).retryAfter},
	"C05": {run: (*toolCase).callbackHangs, limit: 2 * time.Minute},
	"C06": {run: (*toolCase).callbackGone},
	"C07": {run: (*toolCase).callbackRedirects},
	"C08": {run: (*toolCase).callsAtOnce},

	"O08": {run: (*toolCase).asksForAuthorization},
	"O09": {run: (*toolCase).authorizes},
	"O10": {run: (*toolCase).denied},
	"O11": {run: (*toolCase).badState, limit: 2 * time.Minute},
	"O12": {run: (*toolCase).redirectTwice},
	"O13": {run: (*toolCase).foreignCode},
	"O14": {run: (*toolCase).mixedUp, alone: true},
	"O15": {run: (*toolCase).tokenEndpointFails, alone: true, limit: 2 * time.Minute},
	"O16": {run: (*toolCase).refreshes, alone: true},
	"O17": {run: (*toolCase).refreshRefused, alone: true},
	"O18": {run: (*toolCase).oneRefresh, alone: true},
	"O19": {run: (*toolCase).noSecretGetsOut, alone: true},
	"O20": {run: (*toolCase).vaultIsSealed, alone: true},
	"O21": {run: (*toolCase).exactRedirect},
	"O22": {run: (*toolCase).twoUsers},
	"O23": {run: (*toolCase).restartWhileAuthorizing, alone: true, limit: 2 * time.Minute},
	"O24": {run: (*toolCase).otherBrowser},

	"U09": {run: (*toolCase).badSelections},
	"U10": {run: (*toolCase).forgedAnswer},
	"U11": {run: (*toolCase).noAnswer, limit: 5 * time.Minute},
	"U12": {run: (*toolCase).grants},

	"S13": {run: (*toolCase).subscriptionSurvives, alone: true, limit: 2 * time.Minute},
	"S14": {run: (*toolCase).subscriptionCancelled},
	"S15": {run: (*toolCase).threadClosed},
	"S16": {run: (*toolCase).eventsInOrder, limit: 2 * time.Minute},

	"K04": {run: (*toolCase).cancelNothing},
	"K05": {run: (*toolCase).cancelOtherThread, limit: 2 * time.Minute},
	"K06": {run: (*toolCase).cancelRunning},
	"K07": {run: (*toolCase).cancelDetour},

	"X04": {run: (*toolCase).strangeThreads},
	"X05": {run: (*toolCase).cleanupFails},

	"G07": {run: (*toolCase).migrates, limit: 3 * time.Minute},
	"G08": {run: (*toolCase).destinationDown, alone: true, limit: 3 * time.Minute},
	"G09": {run: (*toolCase).unknownSession, limit: 3 * time.Minute},
	"G10": {run: (*toolCase).badDestination, limit: 3 * time.Minute},
	"G11": {run: (*toolCase).migratedAlready, limit: 3 * time.Minute},
	"G12": {run: (*toolCase).forgedImport},

	"W01": {run: (*toolCase).duplicateMember},
	"W02": {run: (*toolCase).otherCase},
	"W03": {run: (*toolCase).badText},
	"W04": {run: (*toolCase).nested},
	"W05": {run: (*toolCase).trailing},
	"W06": {run: (*toolCase).unknownMembers},
	"W10": {run: (*toolCase).numbers},
	"W11": {run: (*toolCase).strangeIDs},

	"Z04": {run: (*toolCase).guardedNames},
	"Z05": {run: (*toolCase).guardedAddresses},

	"E02": {run: (*toolCase).callStatus},
}
