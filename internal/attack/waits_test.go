package attack

// waitAttacks: a worker's word closes nothing for others without evidence.
var waitAttacks []attack
