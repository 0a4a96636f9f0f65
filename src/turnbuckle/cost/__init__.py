"""How long one activity takes on one machine.  Plain functions of arrays; each names its equation, unit, paper and range.

=========  ==============================================  ============================
cost       equation                                        paper
=========  ==============================================  ============================
`ratio`    t / lambda; work / rate                         Austin et al. 2021, eqs 3-4
`loggp`    (o + L) + n / (eta BW)                          Groves et al. 2022, Fig 8
`slack`    s on every call that crosses to the device      Shorts and Grant 2024, eq 1
=========  ==============================================  ============================
"""
